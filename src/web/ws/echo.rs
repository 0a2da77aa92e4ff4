//! Says back what it hears, for a suite that tests a socket's conformance. In test builds only (feature `echo`, which is never on by
//! default), on the same loop, guard and outbox as every other talk.

use actix_web::web::Bytes;

use super::done::Handled;
use super::outbox::{Outbox, Texts};

/// A socket that says back what it hears.
pub(super) struct Echo(Outbox);

impl Echo {
    /// Into `outbox`.
    pub(super) fn new(outbox: Outbox) -> Self {
        Self(outbox)
    }

    /// A text frame came.
    pub(super) fn text(&self, text: &str) -> Handled {
        Ok(self.0.texts(Texts::one(Bytes::copy_from_slice(text.as_bytes())))?)
    }

    /// A binary frame came.
    pub(super) fn binary(&self, content: Bytes) -> Handled {
        Ok(self.0.binary(content)?)
    }
}
