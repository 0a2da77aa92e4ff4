//! What `[auth]` says.

use serde::Deserialize;

/// `[auth]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthOptions {
    /// How callers show who they are.
    pub mode: AuthMode,
    /// Whether a server without authentication may be reached from other machines.
    pub allow_open: bool,
}

/// How callers show who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// They don't.
    None,
}
