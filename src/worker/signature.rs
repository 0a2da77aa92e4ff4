//! Signatures as Standard Webhooks defines them: HMAC-SHA-256 over `id.timestamp.body`. May not know what is signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, HMAC_SHA256, Key};

use crate::service::Wrong;

/// What stands before a secret that is written in base64.
const PREFIX: &str = "whsec_";

/// What signs requests: one secret, or two while they change. No dump shows them.
#[derive(Clone, Default)]
pub struct Signer(Vec<Key>);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[signer]")
    }
}

impl Signer {
    /// One more secret, which the key `key` of the configuration names: `whsec_` and base64, or any other text as it is.
    pub fn add(&mut self, key: &str, secret: &str) -> Result<(), Wrong> {
        let bytes = match secret.strip_prefix(PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).map_err(|_| Wrong::new(key, "begins with whsec_ and isn't base64 after that"))?,
            None => secret.as_bytes().to_vec(),
        };
        if bytes.is_empty() {
            return Err(Wrong::new(key, "has nothing after whsec_"));
        }
        self.0.push(Key::new(HMAC_SHA256, &bytes));
        Ok(())
    }

    /// The signatures of a body, as they stand in `webhook-signature`; nothing without a secret.
    pub fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> Option<String> {
        let signed = self.0.iter().map(|key| {
            let mut context = hmac::Context::with_key(key);
            context.update(format!("{id}.{timestamp}.").as_bytes());
            context.update(body);
            format!("v1,{}", STANDARD.encode(context.sign()))
        });
        let signed = signed.collect::<Vec<_>>().join(" ");
        Some(signed).filter(|signed| !signed.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = b"{\"test\": 2432232314}";

    fn signer(secrets: &[&str]) -> Signer {
        let mut signer = Signer::default();
        for secret in secrets {
            signer.add("secret", secret).unwrap();
        }
        signer
    }

    #[test]
    fn the_vector_of_standard_webhooks() {
        let signed = signer(&["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]).sign(ID, 1_614_265_330, BODY);
        assert_eq!(signed.as_deref(), Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    #[test]
    fn while_secrets_change_both_sign() {
        let one = |secret| signer(&[secret]).sign("d1", 1, b"{}").unwrap();
        let both = signer(&["new", "old"]).sign("d1", 1, b"{}").unwrap();
        assert_eq!(both, format!("{} {}", one("new"), one("old")));
        assert_ne!(one("new"), one("old"));
        assert_eq!(signer(&[]).sign("d1", 1, b"{}"), None);
        assert_ne!(signer(&["new"]).sign("d1", 2, b"{}").unwrap(), one("new"));
    }

    #[test]
    fn secrets_that_are_none_are_named_and_not_shown() {
        let fault = |secret: &str| Signer::default().add("old_secret", secret).unwrap_err().to_string();
        assert_eq!(fault("whsec_!canary"), "old_secret: begins with whsec_ and isn't base64 after that");
        assert_eq!(fault("whsec_"), "old_secret: has nothing after whsec_");
        assert_eq!(format!("{:?}", signer(&["canary"])), "[signer]");
    }
}
