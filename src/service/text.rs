//! What went wrong, in words that may be shown. May not know where.

/// A text has at most so many characters.
const CHARS_MAX: usize = 500;

/// What caused an error, in one line, without the address (which may hold more than people should see).
pub fn reasons(error: &reqwest::Error) -> String {
    let mut reasons = Vec::new();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        reasons.push(error.to_string());
        source = error.source();
    }
    // Each names the next one now and then.
    reasons.dedup_by(|next, reason| reason.ends_with(&**next));
    if reasons.is_empty() { "no reason is known".to_owned() } else { reasons.join(": ") }
}

/// At most 500 characters, in one line.
pub fn clipped(text: &str) -> String {
    let line = |character: char| if character.is_control() { ' ' } else { character };
    if text.chars().count() <= CHARS_MAX {
        return text.chars().map(line).collect();
    }
    text.chars().take(CHARS_MAX - 1).map(line).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_short_and_in_one_line() {
        assert_eq!(clipped("a\nb"), "a b");
        let clipped = clipped(&"ż".repeat(501));
        assert!(clipped.chars().count() == 500 && clipped.ends_with('…'));
    }
}
