//! Names of things: one newtype a kind, over shared strings, so that they clone for the price of a counter. Also the stamp
//! that comes with each input. May not know anything else of the crate.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Ids that Headwater makes begin with this; a client can name one that exists, never make one.
pub const SERVER_PREFIX: &str = "hw_";

/// The longest id that is accepted from outside, in bytes.
pub const ID_BYTES_MAX: usize = 128;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

id!(
    /// Whose sessions these are; comes from the credential only. `"default"` without authentication.
    Tenant
);
id!(
    /// One conversation. AG-UI's `threadId`.
    SessionId
);
id!(
    /// A message's name, for ever, inside its session.
    NodeId
);
id!(
    /// One turn, and the idempotency key of the input that started it. AG-UI's `runId` is one of its names.
    TurnId
);
id!(
    /// One model call; its attempts share it.
    CallId
);
id!(
    /// One tool call, as the model named it; unique in a session.
    ToolCallId
);
id!(
    /// One decision of an agent's worker; its attempts share it.
    DecisionId
);
id!(
    /// What pauses a turn; unique in a session.
    InterruptId
);
id!(
    /// A configured agent.
    AgentId
);

impl NodeId {
    /// Whether only Headwater can have made this id.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(SERVER_PREFIX)
    }
}

impl Tenant {
    /// The tenant of a server without authentication.
    pub fn default_tenant() -> Self {
        Self::from("default")
    }
}

/// Where a session is kept: the same session id in another tenant is another session.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SessionKey {
    /// Whose session.
    pub tenant: Tenant,
    /// Which session.
    pub session: SessionId,
}

/// In one line, whatever a client put into its id.
impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant.as_str().escape_debug(), self.session.as_str().escape_debug())
    }
}

/// Milliseconds since 1970-01-01 UTC.
pub type Millis = u64;

/// What an input brings from the impure world: the time, and a number that nobody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When the input came.
    pub now: Millis,
    /// Unique to this input; ids that it makes derive from it.
    pub nonce: u128,
}

impl Stamp {
    /// The `n`th id that an input with this stamp makes.
    pub fn id(&self, n: u32) -> String {
        format!("{SERVER_PREFIX}{:032x}", self.nonce.wrapping_add(u128::from(n)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_in_one_line() {
        let key = SessionKey { tenant: Tenant::default_tenant(), session: "a\nb\u{1b}[1m é".into() };
        assert_eq!(key.to_string(), "default/a\\nb\\u{1b}[1m é");
    }
}
