//! The command line, and the commands other than `serve`: `check`, and clients of the native API. May not know stores, the web server or
//! the engine's rules: what a command shows, a server said.

mod arguments;
mod chat;
mod check;
mod client;
mod error;
mod server;
mod told;
mod transfer;
mod tree;

use std::io::Write;
use std::process::ExitCode;

use client::Client;

pub use arguments::{Arguments, Command, Serve};
pub use check::{Error as CheckError, check};
pub use error::Error;
pub use server::Found;

/// A command that talks to a server.
pub enum Remote {
    /// `headwater chat`.
    Chat(arguments::Chat),
    /// `headwater tree`.
    Tree(arguments::Tree),
    /// `headwater export`.
    Export(arguments::Export),
    /// `headwater import`, with its file once that was read.
    Import(arguments::Import, Option<transfer::Good>),
}

impl Remote {
    /// Looks for its server. What is to be imported is read before: whoever writes it may hold the very store that is needed then.
    pub fn find(&mut self) -> Result<Found, Error> {
        if let Self::Import(import, file) = self {
            *file = Some(transfer::read(&import.file)?);
        }
        let (place, reads) = match self {
            Self::Chat(chat) => (&chat.place, false),
            Self::Tree(tree) => (&tree.place, true),
            Self::Export(export) => (&export.place, true),
            Self::Import(import, _) => (&import.place, false),
        };
        wait(server::find(place, reads))?
    }

    /// Carries it out with the server at `address`, which ends with the command when it is its `own`; the exit code.
    pub fn run(self, address: &str, own: bool) -> Result<ExitCode, Error> {
        let client = Client::new(address)?;
        match self {
            Self::Chat(chat) => wait(chat::chat(client, &chat, own))?,
            Self::Tree(tree) => print(&wait(tree::tree(&client, &tree.session, tree.raw))??),
            Self::Export(export) => {
                let said = wait(transfer::export(&client, &export.session, &export.file))??;
                eprintln!("{said}");
                Ok(ExitCode::SUCCESS)
            }
            Self::Import(import, file) => {
                let file = file.map_or_else(|| transfer::read(&import.file), Ok)?;
                let said = wait(transfer::import(&client, file, import.session.as_deref()))??;
                eprintln!("{said}");
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Runs `work` on this thread.
fn wait<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let started = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = started.map_err(|source| Error::File { doing: "start".to_owned(), source })?;
    Ok(runtime.block_on(work))
}

fn print(text: &str) -> Result<ExitCode, Error> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Whoever read it has enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(source) => Err(Error::File { doing: "write standard output".to_owned(), source }),
    }
}
