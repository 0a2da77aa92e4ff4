//! Secrets: the configuration says where they are, never what they are. May not know what they are for.

use std::path::{Path, PathBuf};

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};

/// A reference to a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// `{ env = "NAME" }`: an environment variable.
    Env(String),
    /// `{ file = "PATH" }`: a file that holds it, white space trimmed.
    File(PathBuf),
}

/// Why a secret can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The environment has no such variable, or one that isn't text.
    #[error("{key} = {{ env = \"{name}\" }}: the environment variable {name} is not set")]
    NotSet {
        /// Of which key.
        key: String,
        /// The variable.
        name: String,
    },
    /// The file with a secret can't be read.
    #[error("{key} = {{ file = … }}: can't read {}", file.display())]
    Unreadable {
        /// Of which key.
        key: String,
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A secret is empty, or can't stand in a header.
    #[error("the secret of {from} {fault}")]
    Unusable {
        /// The variable or the file.
        from: String,
        /// What is wrong with it; never the secret itself.
        fault: &'static str,
    },
}

impl Secret {
    /// The secret that `key` names: printable, without spaces. Paths are relative to `base_dir`.
    pub fn resolve(&self, key: &str, base_dir: &Path) -> Result<String, SecretError> {
        self.read(key, base_dir, |byte| byte.is_ascii_graphic())
    }

    fn read(&self, key: &str, base_dir: &Path, may_hold: impl Fn(u8) -> bool) -> Result<String, SecretError> {
        let key = || key.to_owned();
        let (from, value) = match self {
            Self::Env(name) => (name.clone(), std::env::var(name).map_err(|_| SecretError::NotSet { key: key(), name: name.clone() })?),
            Self::File(path) => {
                let file = base_dir.join(path);
                let unreadable = |source| SecretError::Unreadable { key: key(), file: file.clone(), source };
                let value = std::fs::read_to_string(&file).map_err(unreadable)?;
                (file.display().to_string(), value)
            }
        };
        let value = value.trim();
        if value.is_empty() {
            return Err(SecretError::Unusable { from, fault: "is empty" });
        }
        if !value.bytes().all(may_hold) {
            return Err(SecretError::Unusable { from, fault: "has characters that can't stand in an HTTP header" });
        }
        Ok(value.to_owned())
    }
}

/// A text, or a reference to a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// As it stands there.
    Text(String),
    /// As it is where this says.
    Secret(Secret),
}

impl Given {
    /// What `key` comes to. Paths are relative to `base_dir`.
    pub fn resolve(&self, key: &str, base_dir: &Path) -> Result<String, SecretError> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            // A header's value may be `Bearer` and a token.
            Self::Secret(secret) => secret.read(key, base_dir, |byte| byte.is_ascii_graphic() || byte == b' '),
        }
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenVisitor)
    }
}

struct GivenVisitor;

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Given;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, `{ env = \"NAME\" }` or `{ file = \"PATH\" }`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Given, E> {
        Ok(Given::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Given, A::Error> {
        SecretVisitor.visit_map(map).map(Given::Secret)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

/// Takes a table only, and says so without repeating what stood there: it may be the secret itself.
struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("`{ env = \"NAME\" }` or `{ file = \"PATH\" }`")
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Secret, E> {
        Err(E::custom("a secret is named, never written here: use `{ env = \"NAME\" }` or `{ file = \"PATH\" }`"))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Secret, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Reference {
            env: Option<String>,
            file: Option<PathBuf>,
        }
        match Reference::deserialize(MapAccessDeserializer::new(map))? {
            Reference { env: Some(name), file: None } => Ok(Secret::Env(name)),
            Reference { env: None, file: Some(path) } => Ok(Secret::File(path)),
            Reference { .. } => Err(de::Error::custom("a secret has exactly one of `env` and `file`")),
        }
    }
}
