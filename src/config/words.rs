//! Puts what serde says about a value into the words of a configuration, and finds what was meant.

/// What sort of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A key that there isn't.
    UnknownKey,
    /// A key that there must be.
    MissingKey,
    /// A value.
    Value,
}

/// What is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) fault: Fault,
    /// The key that is too much, or missing.
    pub(super) key: Option<String>,
    /// In words; empty for a key.
    pub(super) what: String,
    /// What to write instead.
    pub(super) help: Option<String>,
}

/// Serde's names of types, and what people call them; in this order.
const TYPES: &[(&str, &str)] = &[
    ("a nonzero usize", "a whole number above 0"),
    ("a nonzero u64", "a whole number above 0"),
    ("a nonzero u32", "a whole number above 0"),
    ("usize", "a whole number"),
    ("u64", "a whole number"),
    ("u32", "a whole number"),
    ("f64", "a number"),
    ("path string", "a path in quotes"),
    ("a map", "a table"),
    (" map,", " table,"),
    ("a sequence", "a list"),
    (" sequence,", " list,"),
    ("` as i128", "`"),
    ("` as u128", "`"),
    ("invalid type:", "wrong type:"),
    ("invalid value:", "wrong value:"),
];

/// `message` as serde made it.
pub(super) fn said(message: &str) -> Said {
    let quoted = quoted(message);
    let (first, others) = quoted.split_first().map_or(("", &[][..]), |(first, others)| (*first, others));
    let key = |fault, help| Said { fault, key: Some(first.to_owned()), what: String::new(), help };
    if message.starts_with("unknown field") {
        return key(Fault::UnknownKey, Some(meant(first, others, "keys")));
    }
    if message.starts_with("missing field") {
        return key(Fault::MissingKey, None);
    }
    if message.starts_with("unknown variant") {
        let what = format!("`{first}` is not a value that this can have");
        return Said { fault: Fault::Value, key: None, what, help: Some(meant(first, others, "values")) };
    }
    let what = TYPES.iter().fold(message.to_owned(), |what, (theirs, ours)| what.replace(theirs, ours));
    Said { fault: Fault::Value, key: None, what, help: None }
}

/// The keys that serde names as known in an "unknown field" message.
pub(super) fn known(message: &str) -> Vec<String> {
    quoted(message).split_first().map(|(_, known)| known.iter().map(|&key| key.to_owned()).collect()).unwrap_or_default()
}

/// The nearest of `known`, or all of them.
pub(super) fn meant(wrong: &str, known: &[&str], kind: &str) -> String {
    let near = known.iter().map(|&name| (distance(wrong, name), name)).min();
    match near {
        Some((steps, name)) if steps <= 1 + name.len() / 4 => format!("did you mean `{name}`?"),
        Some((_, name)) if known.len() == 1 => format!("there is only `{name}`"),
        Some(_) => format!("the {kind} are {}", list(known)),
        None => format!("there are no {kind}"),
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// What stands between backquotes, in order.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// How many letters have to be changed, added, left out or swapped with the next to get from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.to_lowercase().chars().collect(), to.to_lowercase().chars().collect());
    if from.len().abs_diff(to.len()) > to.len() {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i.max(j)
            } else {
                let change = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                let swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
                let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                change.min(swap).min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1)
            };
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered_and_far_ones_are_listed() {
        let known = ["listen", "workers", "origins"];
        assert_eq!(meant("listn", &known, "keys"), "did you mean `listen`?");
        assert_eq!(meant("lisetn", &known, "keys"), "did you mean `listen`?");
        assert_eq!(meant("Workers", &known, "keys"), "did you mean `workers`?");
        assert_eq!(meant("port", &known, "keys"), "the keys are `listen`, `workers`, `origins`");
        assert_eq!(meant("port", &[], "llms"), "there are no llms");
        assert_eq!(meant(&"x".repeat(100_000), &known, "keys"), "the keys are `listen`, `workers`, `origins`");
    }

    #[test]
    fn distance_counts_steps() {
        for (from, to, steps) in [("", "", 0), ("a", "", usize::MAX), ("ab", "ba", 1), ("kitten", "sitting", 3), ("main", "mian", 1)] {
            assert_eq!(distance(from, to), steps, "{from} {to}");
        }
    }
}
