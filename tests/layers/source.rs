//! Reads a Rust source file as far as layers need it: its words without comments and strings, what of it is only for tests,
//! and which modules of the crate it names. May not know the table of layers.

/// A word or a sign, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// The file's words and signs; comments, strings and numbers left out. `::` is one sign.
pub fn tokens(source: &str) -> Vec<Token> {
    let characters: Vec<char> = source.chars().collect();
    let (mut at, mut line, mut tokens) = (0, 1, Vec::new());
    while let Some(&first) = characters.get(at) {
        let length = skipped(&characters[at..]);
        if length > 0 {
            line += characters[at..at + length].iter().filter(|&&c| c == '\n').count();
            at += length;
            continue;
        }
        let word = characters[at..].iter().take_while(|&&c| is_word(c)).count();
        let length = match (word, first, characters.get(at + 1)) {
            (0, ':', Some(':')) => 2,
            (0, ..) => 1,
            (word, ..) => word,
        };
        if !first.is_ascii_digit() {
            tokens.push(Token { text: characters[at..at + length].iter().collect(), line });
        }
        at += length;
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How many characters at the start are white space, a comment, a string or a character.
fn skipped(rest: &[char]) -> usize {
    let starts = |text: &str| text.chars().zip(rest).filter(|(a, b)| a == *b).count() == text.len();
    if rest[0].is_whitespace() {
        return 1;
    }
    if starts("//") {
        return rest.iter().position(|&c| c == '\n').unwrap_or(rest.len());
    }
    if starts("/*") {
        return block_comment(rest);
    }
    let prefix = ["br", "b", "c", "cr", "r", ""].into_iter().find(|prefix| {
        starts(prefix)
            && matches!(rest.get(prefix.len()), Some('"' | '#'))
            && (prefix.contains('r') || rest.get(prefix.len()) == Some(&'"'))
    });
    match prefix {
        Some(prefix) if prefix.contains('r') => raw_string(rest, prefix.len()),
        Some(prefix) => prefix.len() + quoted(&rest[prefix.len()..], '"'),
        None if starts("b'") => 1 + quoted(&rest[1..], '\''),
        None if starts("'") && (rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')) => quoted(rest, '\''),
        None => 0,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        match (rest[at], rest.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at.min(rest.len())
}

/// A string or character with escapes, both quotes included.
fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 1;
    while let Some(&c) = rest.get(at) {
        at += if c == '\\' { 2 } else { 1 };
        if c == quote {
            break;
        }
    }
    at.min(rest.len())
}

/// `r#"…"#` after its `prefix`; nothing when it is a raw word (`r#type`).
fn raw_string(rest: &[char], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
    if rest.get(prefix + hashes) != Some(&'"') {
        return 0;
    }
    let close: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body: String = rest[prefix + hashes + 1..].iter().collect();
    let end = body.find(&close).map_or(body.chars().count(), |bytes| body[..bytes].chars().count() + close.len());
    prefix + hashes + 1 + end
}

/// The tokens of items that aren't only for tests, and the names of modules in other files that are.
pub fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut test_modules, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        match test_attribute(&tokens[at..]) {
            0 => {
                kept.push(tokens[at].clone());
                at += 1;
            }
            length => {
                let item = item(&tokens[at + length..]);
                let words: Vec<&str> = tokens[at + length..at + length + item].iter().map(|token| token.text.as_str()).collect();
                if let Some(place) = words.iter().position(|word| *word == "mod")
                    && words.last() == Some(&";")
                {
                    test_modules.push(words[place + 1].to_owned());
                }
                at += length + item;
            }
        }
    }
    (kept, test_modules)
}

/// The length of `#[cfg(test)]` or `#[cfg(any(test, …))]`, else 0.
fn test_attribute(rest: &[Token]) -> usize {
    let starts = ["#", "[", "cfg", "("].iter().zip(rest).all(|(word, token)| *word == token.text);
    if !starts {
        return 0;
    }
    let length = rest.iter().position(|token| token.text == "]").map_or(rest.len(), |end| end + 1);
    let words: Vec<&str> = rest[4..length].iter().map(|token| token.text.as_str()).collect();
    if words.contains(&"test") && !words.contains(&"not") { length } else { 0 }
}

/// The length of the item (with further attributes) that begins here.
fn item(rest: &[Token]) -> usize {
    let mut depth = 0usize;
    for (at, token) in rest.iter().enumerate() {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" if depth == 1 => return at + 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A module of the crate that a file names.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// From the crate's root: `["engine", "tree"]`; cut where names stop being modules.
    pub path: Vec<String>,
    pub line: usize,
}

/// What the file of module `module` (from the root; empty for the root itself) names by `crate::`, `super::` and, from the
/// program, `headwater::`.
pub fn imports(tokens: &[Token], module: &[String]) -> Vec<Import> {
    let (mut found, mut inline, mut depth) = (Vec::new(), Vec::<usize>::new(), 0usize);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    for at in 0..tokens.len() {
        match word(at) {
            "{" => {
                depth += 1;
                if at >= 2 && word(at - 2) == "mod" {
                    inline.push(depth);
                }
            }
            "}" => {
                inline.retain(|&opened| opened != depth);
                depth = depth.saturating_sub(1);
            }
            "crate" | "headwater" | "super" if word(at + 1) == "::" && (at == 0 || word(at - 1) != "::") => {
                let ups = (0..tokens.len()).take_while(|n| word(at + 2 * n) == "super").count();
                // Inline modules have names that don't matter: only how many there are.
                let here = module.len() + inline.len();
                let base = if ups == 0 { Some(0) } else { here.checked_sub(ups) };
                let first = if ups == 0 { at + 2 } else { at + 2 * ups };
                let base: Vec<String> = module.iter().take(base.unwrap_or(0)).cloned().collect();
                branches(tokens, first, &base, &mut found);
            }
            _ => {}
        }
    }
    found
}

/// Follows a path, into the branches of `{…}`.
fn branches(tokens: &[Token], mut at: usize, base: &[String], found: &mut Vec<Import>) {
    let mut path = base.to_vec();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            let end = at + item(&tokens[at..]);
            let mut start = at + 1;
            let mut depth = 0usize;
            for (place, inner) in tokens.iter().enumerate().take(end).skip(at + 1) {
                match inner.text.as_str() {
                    "{" => depth += 1,
                    "}" if depth > 0 => depth -= 1,
                    "," | "}" if depth == 0 => {
                        if start < place {
                            branches(tokens, start, &path, found);
                        }
                        start = place + 1;
                    }
                    _ => {}
                }
            }
            return;
        }
        path.push(token.text.clone());
        let goes_on = tokens.get(at + 1).is_some_and(|next| next.text == "::");
        let line = token.line;
        if !goes_on {
            found.push(Import { path, line });
            return;
        }
        at += 2;
    }
}
