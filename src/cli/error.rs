//! What goes wrong in commands that talk to a server, in words for the person who typed them.

use std::path::PathBuf;

use crate::protocol::{Code, Refusal};

/// Why a command did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] crate::config::Error),
    /// `--server` is no address of a server.
    #[error("--server {given}: {what}; write it as http://127.0.0.1:8080")]
    Address {
        /// What was given.
        given: String,
        /// What is wrong with it.
        what: String,
    },
    /// No connection, or it was lost.
    #[error("can't reach the server at {server}; is it running? (`headwater serve` starts one)")]
    Unreachable {
        /// Where.
        server: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is a server, of something else.
    #[error("what answers at {server} isn't Headwater: {what}")]
    Stranger {
        /// Where.
        server: String,
        /// What it says.
        what: String,
    },
    /// The server says no.
    #[error("{0}")]
    Refused(Refusal),
    /// An id that no URL can carry.
    #[error("{0:?} can't be the name of a session in a URL; give it another one")]
    Name(String),
    /// No server runs, and there are no sessions here.
    #[error(
        "no server runs at {asked}, and there is no store at {}; name the server with --server, or the configuration with --config",
        store.display()
    )]
    NothingHere {
        /// Where a server was looked for.
        asked: String,
        /// Where a store was looked for.
        store: PathBuf,
    },
    /// A file, or standard input or output.
    #[error("can't {doing}")]
    File {
        /// What was being done, to what.
        doing: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A file of records that isn't taken.
    #[error("{file} is not imported: {}", refusal.message)]
    Import {
        /// Which file.
        file: String,
        /// Why not.
        refusal: Box<Refusal>,
    },
    /// A new session needs to know who answers.
    #[error("name the agent with --agent; there is {}", agents.join(", "))]
    Agent {
        /// Those that there are.
        agents: Vec<String>,
    },
    /// The session changed while it was read.
    #[error("session {session} changed while it was read; try again")]
    Changed {
        /// Which.
        session: String,
    },
}

impl Error {
    /// Whether the same may go well a little later.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => {
                matches!(refusal.code, Code::ShuttingDown | Code::StoreUnavailable | Code::TooManyRequests | Code::TooManyReaders)
            }
            Self::Config(_)
            | Self::Address { .. }
            | Self::Stranger { .. }
            | Self::Name(_)
            | Self::NothingHere { .. }
            | Self::File { .. }
            | Self::Import { .. }
            | Self::Agent { .. }
            | Self::Changed { .. } => false,
        }
    }

    /// The code of a refusal.
    pub(super) fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Import { refusal, .. } => Some(refusal.code),
            Self::Config(_)
            | Self::Address { .. }
            | Self::Unreachable { .. }
            | Self::Stranger { .. }
            | Self::Name(_)
            | Self::NothingHere { .. }
            | Self::File { .. }
            | Self::Agent { .. }
            | Self::Changed { .. } => None,
        }
    }
}
