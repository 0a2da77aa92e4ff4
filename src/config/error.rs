//! What is wrong with a configuration: where, what, and what to write instead.

use std::fmt;
use std::path::PathBuf;

use super::source::Place;

/// A configuration that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file can't be read.
    #[error("can't read the configuration file {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error(transparent)]
    Wrong(#[from] Wrong),
}

/// Something wrong in a configuration.
#[derive(Debug, thiserror::Error)]
pub struct Wrong {
    /// Where; absent when no one place is to blame.
    pub place: Option<Box<Place>>,
    /// What.
    pub what: String,
    /// What to do instead.
    pub help: Option<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            None => f.write_str(&self.what)?,
            Some(place) => write!(f, "{place}: {}{}", self.what, place.picture())?,
        }
        match &self.help {
            None => Ok(()),
            Some(help) => write!(f, "\n{help}"),
        }
    }
}
