//! Secrets, and texts without them: services repeat what they were sent, whole, clipped, or with stars in the middle. May not know
//! where a secret came from.

/// What stands in the place of a secret.
const MASK: &str = "[key]";
/// Fewer characters of a secret say nothing of it.
const PIECE_CHARS_MIN: usize = 8;
/// So many of them are letters or digits, so that no `https://` is a piece of anything.
const PIECE_LETTERS_MIN: usize = 6;
/// Before or after stars fewer characters do.
const END_CHARS_MIN: usize = 3;

/// Values that no text may show. No dump does.
#[derive(Default)]
pub struct Secrets(Vec<Vec<char>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[keys]")
    }
}

impl Secrets {
    /// One more.
    pub fn add(&mut self, secret: &str) {
        self.0.push(secret.chars().collect());
    }

    /// The words of a value that may hold a secret; short ones are too common to be one.
    pub fn add_words(&mut self, value: &str) {
        let words = value.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
        words.filter(|word| word.chars().count() >= PIECE_LETTERS_MIN).for_each(|word| self.add(word));
    }

    /// The text without them, and without what looks like a piece of one.
    pub fn hide(&self, text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let mut hidden = String::with_capacity(text.len());
        let mut at = 0;
        while at < chars.len() {
            let rest = &chars[at..];
            let taken = self.0.iter().map(|secret| whole(secret, rest).max(piece(secret, rest)).max(starred(secret, rest))).max();
            match taken.unwrap_or(0) {
                0 => {
                    hidden.push(chars[at]);
                    at += 1;
                }
                taken => {
                    if !hidden.ends_with(MASK) {
                        hidden.push_str(MASK);
                    }
                    at += taken;
                }
            }
        }
        hidden
    }
}

fn common(one: &[char], other: &[char]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// How many characters of `rest` are the secret.
fn whole(secret: &[char], rest: &[char]) -> usize {
    if rest.starts_with(secret) { secret.len() } else { 0 }
}

/// How many are a piece of it, and what stars and its end add to that.
fn piece(secret: &[char], rest: &[char]) -> usize {
    let longest = (0..secret.len()).map(|from| common(&secret[from..], rest)).max().unwrap_or(0);
    let letters = rest[..longest].iter().filter(|c| c.is_alphanumeric()).count();
    if longest < PIECE_CHARS_MIN || letters < PIECE_LETTERS_MIN {
        return 0;
    }
    let stars = stars(&rest[longest..]);
    longest + if stars > 0 { stars + end(secret, &rest[longest + stars..]) } else { 0 }
}

/// How many are its beginning and its end with stars between them; one of both may be missing.
fn starred(secret: &[char], rest: &[char]) -> usize {
    let begin = common(secret, rest);
    let stars = stars(&rest[begin..]);
    if stars == 0 {
        return 0;
    }
    let end = end(secret, &rest[begin + stars..]);
    if begin.max(end) >= END_CHARS_MIN { begin + stars + end } else { 0 }
}

/// How many characters stand for others that are left out: one that says so by itself, or several.
fn stars(rest: &[char]) -> usize {
    let count = rest.iter().take_while(|c| matches!(c, '*' | '•' | '.' | '…')).count();
    if count > 1 || rest.first() == Some(&'…') { count } else { 0 }
}

/// How many characters at the beginning of `rest` are the secret's last.
fn end(secret: &[char], rest: &[char]) -> usize {
    (1..=secret.len().min(rest.len())).rev().find(|&count| secret.ends_with(&rest[..count])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hide(text: &str) -> String {
        let mut secrets = Secrets::default();
        secrets.add("sk-proj-a1b2c3d4e5f6");
        secrets.add_words("Bearer token-9z8y7x6w https://example.com/app; v=1");
        secrets.hide(text)
    }

    #[test]
    fn secrets_go_whole_and_in_pieces() {
        for (text, left) in [
            ("Incorrect API key provided: sk-proj-a1b2c3d4e5f6.", "Incorrect API key provided: [key]."),
            ("Incorrect API key provided: sk-proj-*****e5f6.", "Incorrect API key provided: [key]."),
            ("Incorrect API key provided: sk-p***e5f6. See https://x.y", "Incorrect API key provided: [key]. See https://x.y"),
            ("key ending in ****e5f6", "key ending in [key]"),
            ("key sk-proj…e5f6 is wrong", "key [key] is wrong"),
            ("clipped: sk-proj-a1b2", "clipped: [key]"),
            ("the rest is 'b2c3d4e5f6'", "the rest is '[key]'"),
            ("twice sk-proj-a1b2c3d4e5f6sk-proj-a1b2c3d4e5f6", "twice [key]"),
            ("x-token: Bearer token-9z8y7x6w", "x-token: [key] [key]"),
            ("é sk-proj-a1b2c3d4e5f6 ü", "é [key] ü"),
        ] {
            assert_eq!(hide(text), left);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "the provider answered 401: Invalid API key. Wait...",
            "see https://docs.other.com/keys, v=1",
            "sk-proj is a prefix",
            "**bold** and sk-, and e5f6",
            "",
        ] {
            assert_eq!(hide(text), text);
        }
    }

    #[test]
    fn no_dump_shows_one() {
        let mut secrets = Secrets::default();
        secrets.add("hush-hush");
        assert_eq!(format!("{secrets:?}"), "[keys]");
        assert_eq!(secrets.hide("a hush-hush"), "a [key]");
    }
}
