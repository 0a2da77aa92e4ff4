//! Opaque values of a provider's, kept with its name: one that another kind of provider made is never sent to it. May not know
//! what is in them.

/// `value`, to be kept.
pub(super) fn kept(maker: &str, value: &str) -> String {
    format!("{maker}:{value}")
}

/// The value, when `maker` made it.
pub(super) fn made_by<'a>(maker: &str, kept: Option<&'a str>) -> Option<&'a str> {
    kept?.strip_prefix(maker)?.strip_prefix(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_maker_gets_it_back() {
        let value = kept("gemini", "a:b");
        assert_eq!(value, "gemini:a:b");
        assert_eq!(made_by("gemini", Some(&value)), Some("a:b"));
        for other in ["openai", "gem", "emini"] {
            assert_eq!(made_by(other, Some(&value)), None, "{other}");
        }
        assert_eq!((made_by("gemini", Some("c2ln")), made_by("gemini", None)), (None, None));
    }
}
