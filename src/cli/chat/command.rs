//! What a line asks for. May not know how it is done.

use std::fmt::Write as _;

/// What a person asks for in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// To send this.
    Say(String),
    /// To put this in place of a message; which one is the first word, when it names one, else the last.
    Edit(String),
    /// Another reply.
    Regenerate,
    /// The branches, or to go to one.
    Branch(Option<String>),
    /// The whole tree.
    Tree,
    /// To stop the reply, or to drop what waits.
    Cancel,
    /// To send this after the running reply; without text: what waits.
    Queue(Option<String>),
    /// To name where the conversation stands; without a name: the names.
    Label(Option<String>),
    /// To go back to a message.
    Goto(String),
    /// A new session of the conversation so far.
    Fork(Option<String>),
    /// What there is.
    Help,
    /// To leave.
    Quit,
}

/// Each command: its name, what it takes, what it does.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("edit", "[MESSAGE] TEXT", "say TEXT instead of your last message, or of another one; the old branch is kept"),
    ("regenerate", "", "another reply to your last message; the old one is kept"),
    ("branch", "[MESSAGE]", "the branches along this conversation; or go to the one with MESSAGE"),
    ("tree", "", "everything that was ever said here; <- head is where you are"),
    ("goto", "MESSAGE", "go back to MESSAGE: what you say next follows it (0: the start)"),
    ("label", "[NAME]", "name this place, for /goto NAME; without NAME: the names that there are"),
    ("fork", "[SESSION]", "go on in a new session; this one stays as it is"),
    ("queue", "[TEXT]", "send TEXT once the running reply is done; without TEXT: what waits"),
    ("cancel", "", "stop the running reply and keep what was said"),
    ("help", "", "this"),
    ("quit", "", "leave (Ctrl-D)"),
];

/// What `/help` says.
pub fn help() -> String {
    let mut text = String::from("What you type is sent. A message that begins with / is written //so.\n");
    for (name, takes, does) in COMMANDS {
        let usage = format!("/{name} {takes}");
        let _ = writeln!(text, "  {usage:<22} {does}");
    }
    text.push_str("A MESSAGE is its number in /tree, its id, or its label. /re is enough for /regenerate.\n");
    text.push_str("Ctrl-C stops a reply, twice it leaves. Alt-Enter begins a new line, Up brings back what you wrote.");
    text
}

/// Reads a line; nothing for an empty one.
pub fn parse(line: &str) -> Result<Option<Command>, String> {
    let Some(rest) = line.strip_prefix('/') else {
        return Ok(Some(line).filter(|line| !line.trim().is_empty()).map(|line| Command::Say(line.to_owned())));
    };
    if rest.starts_with('/') {
        return Ok(Some(Command::Say(rest.to_owned())));
    }
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    let given = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
    let name = full_name(word)?;
    let needs = |what: &str| format!("/{name} needs {what}; /help lists the commands");
    let command = match (name, given) {
        ("edit", given) => Command::Edit(given.ok_or_else(|| needs("the new text: /edit TEXT"))?),
        ("goto", given) => Command::Goto(given.ok_or_else(|| needs("a message: /goto 3"))?),
        ("branch", given) => Command::Branch(given),
        ("label", given) => Command::Label(given),
        ("fork", given) => Command::Fork(given),
        ("queue", given) => Command::Queue(given),
        (_, Some(_)) => return Err(format!("/{name} takes nothing; /help lists the commands")),
        ("regenerate", None) => Command::Regenerate,
        ("tree", None) => Command::Tree,
        ("cancel", None) => Command::Cancel,
        ("quit", None) => Command::Quit,
        (_, None) => Command::Help,
    };
    Ok(Some(command))
}

/// The command that `word` begins, when it is only one.
fn full_name(word: &str) -> Result<&'static str, String> {
    let names = || COMMANDS.iter().map(|(name, ..)| *name);
    if let Some(name) = names().find(|name| *name == word) {
        return Ok(name);
    }
    let fitting: Vec<&str> = names().filter(|name| !word.is_empty() && name.starts_with(word)).collect();
    match fitting[..] {
        [name] => Ok(name),
        [] => Err(format!("there is no /{word}; /help lists what there is, and a message that begins with / is written //{word}")),
        _ => Err(format!("/{word} may be {}", fitting.iter().map(|name| format!("/{name}")).collect::<Vec<_>>().join(" or "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let read = |line: &str| parse(line).unwrap();
        assert_eq!(read("  hello / there "), Some(Command::Say("  hello / there ".to_owned())));
        assert_eq!(read("//etc is a folder"), Some(Command::Say("/etc is a folder".to_owned())));
        assert_eq!((read(""), read(" \t")), (None, None));
        assert_eq!(read("/edit 2 two  words "), Some(Command::Edit("2 two  words".to_owned())));
        assert_eq!(
            (read("/re"), read("/qui"), read("/queue")),
            (Some(Command::Regenerate), Some(Command::Quit), Some(Command::Queue(None)))
        );
    }

    #[test]
    fn what_is_wrong_says_what_to_write() {
        let wrong = |line: &str| parse(line).unwrap_err();
        assert_eq!(wrong("/foo bar"), "there is no /foo; /help lists what there is, and a message that begins with / is written //foo");
        assert_eq!(wrong("/"), "there is no /; /help lists what there is, and a message that begins with / is written //");
        assert_eq!(wrong("/edit "), "/edit needs the new text: /edit TEXT; /help lists the commands");
        assert_eq!(wrong("/tree x"), "/tree takes nothing; /help lists the commands");
        assert_eq!(wrong("/qu"), "/qu may be /queue or /quit");
    }

    #[test]
    fn help_names_each_command_in_lines_that_fit() {
        let help = help();
        for (name, ..) in COMMANDS {
            assert!(help.contains(&format!("  /{name} ")), "{name}");
            assert!(parse(&format!("/{name} x")).is_ok() || parse(&format!("/{name}")).is_ok(), "{name}");
        }
        assert!(help.lines().all(|line| line.len() <= 110), "{help}");
    }
}
