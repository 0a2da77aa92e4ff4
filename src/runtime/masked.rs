//! What a provider said of a failure, fit for a log line: services repeat what they were sent, so every word that stands in the
//! prompt, and everything that looks like a key, is left out. May not know which service it was.

use crate::protocol::CallRequest;

/// A log line has no more of it.
const CHARS_MAX: usize = 300;

/// Letters and digits mixed, of so many characters: a key, a digest, an id.
const KEY_CHARS_MIN: usize = 12;

/// What stands in the place of words that are left out.
const MASK: &str = "…";

/// Words that failures are told in; they stay, also when a prompt has them.
const WORDS: &str = "\
    a again allowed already an and another answer answered api append are at authentication bad base_url be been before body \
    boolean but by bytes cache called can cannot capacity check client closed code column connect connection content context \
    could credit damaged decoded denied differ does doesn ended eof error events exceed exceeded exceeds exist expected \
    failed field file fold folded for forbidden found from gateway has hash hashes have http id in incorrect input instead \
    insufficient integer internal invalid is isn it its json key large later length limit limited line ll log long map max \
    maximum message messages middle minute missing model must newer no node nodes not null number object of on only or \
    organization other output overloaded page parameter parsing per permission place please position present prompt provided \
    provider quota rate reach reached read reason record records refused reply reported request requests resource response \
    restore retry s said same second seconds sequence server service session sheet should silent size snapshot something \
    stream string t temporarily than that the this time timed to token tokens too tool tools tree turn type u32 u64 \
    unavailable unexpected unit unknown unread unsupported upstream use value variant version was whole with without written \
    wrong your";

/// A fault of what is stored: it may repeat a piece of it, so that only known words stay.
pub fn fault(said: &str) -> String {
    masked(said, None)
}

/// `said` without words of `request`.
pub fn masked(said: &str, request: Option<&CallRequest>) -> String {
    let said: String = said.chars().take(CHARS_MAX).collect();
    let pieces = pieces(&said);
    let mut hidden: Vec<bool> = pieces.iter().map(|piece| !is_plain(piece) && (request.is_none() || looks_like_a_key(piece))).collect();
    if let Some(request) = request {
        let open: Vec<usize> = (0..pieces.len()).filter(|&at| is_word(pieces[at]) && !is_plain(pieces[at]) && !hidden[at]).collect();
        if !open.is_empty() {
            hide_known(&pieces, &open, &mut hidden, request);
        }
    }
    let mut text = String::with_capacity(said.len());
    for (piece, hidden) in pieces.iter().zip(hidden) {
        match hidden && is_word(piece) {
            false => text.push_str(piece),
            true if text.ends_with(MASK) => {}
            true => text.push_str(MASK),
        }
    }
    text
}

/// Hides the words among `open` that stand anywhere in the request.
fn hide_known(pieces: &[&str], open: &[usize], hidden: &mut [bool], request: &CallRequest) {
    let words: Vec<String> = open.iter().map(|&at| pieces[at].to_lowercase()).collect();
    let mut look = |text: &str| {
        let text = text.to_lowercase();
        for (&at, word) in open.iter().zip(&words) {
            hidden[at] = hidden[at] || text.contains(word.as_str());
        }
    };
    request.system.iter().for_each(|system| look(system));
    // As JSON all of it is there: names, arguments, parts.
    let messages = request.messages.iter().filter_map(|message| serde_json::to_string(message).ok());
    messages.for_each(|message| look(&message));
    let tools = request.tools.iter().filter_map(|tool| serde_json::to_string(tool).ok());
    tools.for_each(|tool| look(&tool));
}

/// Words and what stands between them.
fn pieces(said: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = said;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| in_word(c) != in_word(first)).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '*' || c == '_'
}

fn is_word(piece: &str) -> bool {
    piece.chars().next().is_some_and(in_word)
}

/// Whether a piece may stay whatever the prompt holds: words of ours, statuses.
fn is_plain(piece: &str) -> bool {
    let is_status = piece.len() <= 3 && piece.bytes().all(|byte| byte.is_ascii_digit());
    !is_word(piece) || is_status || WORDS.split(' ').any(|word| piece.eq_ignore_ascii_case(word))
}

fn looks_like_a_key(piece: &str) -> bool {
    let mixed = piece.chars().any(|c| c.is_ascii_digit()) && piece.chars().any(char::is_alphabetic);
    piece.contains('*') || (mixed && piece.chars().count() >= KEY_CHARS_MIN)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::protocol::{Message, Role};

    fn request(system: &str, text: &str) -> CallRequest {
        let messages = vec![Arc::new(Message::text(Role::User, text))];
        CallRequest { model: None, system: Some(system.to_owned()), messages, tools: Vec::new(), index: 0, hidden: false, occasion: None }
    }

    #[test]
    fn what_a_service_says_of_itself_stays() {
        let said = "the provider answered 429: Rate limit reached for gpt-4.1-mini in organization acme: please retry";
        assert_eq!(masked(said, Some(&request("be brief", "what is the rate limit?"))), said);
    }

    #[test]
    fn what_it_repeats_of_the_prompt_goes() {
        let request = request("You are Bramble", "my password is Rosebud\nand 12345678");
        let said = "the provider answered 400: invalid content \"my PASSWORD is rosebud and 1234\" for Bramble, see docs";
        assert_eq!(masked(said, Some(&request)), "the provider answered 400: invalid content \"… … is … and …\" for …, see docs");
        assert_eq!(masked("invalid: Roseb", Some(&request)), "invalid: …", "a clipped word too");
    }

    #[test]
    fn keys_go_also_in_part() {
        let request = request("", "hello");
        assert_eq!(masked("Incorrect API key provided: sk-ab12*****wxyz", Some(&request)), "Incorrect API key provided: sk-…");
        assert_eq!(masked("key 0a1b2c3d4e5f6a7b", Some(&request)), "key …");
    }

    #[test]
    fn without_the_prompt_only_known_words_stay() {
        assert_eq!(masked("the provider answered 500: secret plan", None), "the provider answered 500: … …");
    }
}
