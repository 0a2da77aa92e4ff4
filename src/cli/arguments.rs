//! The command line: commands, their options, and what `--help` says of them. May not know what the commands do.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// An AG-UI gateway with a conversation engine inside.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_help = FIRST_STEPS)]
pub struct Arguments {
    /// What to do; without one: serve.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to serve when no command is given.
    #[command(flatten)]
    pub serve: Serve,
}

const FIRST_STEPS: &str = "\
First steps:
  headwater chat                     talk to the demo agent; no server and no key needed
  headwater serve                    the same agent for front ends, at http://127.0.0.1:8080/agents/demo
  headwater chat --session trip      go on with the conversation `trip`, also while the server runs
  headwater help chat                what else a command takes";

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Start the server (also what happens without a command)
    #[command(after_help = "\
Examples:
  headwater serve
  headwater serve --config headwater.toml --listen 127.0.0.1:9000

It serves until SIGTERM or Ctrl-C; running replies get a moment to end, and what isn't done goes on at the next start.")]
    Serve(Serve),
    /// Read a configuration file and say what is in it, or what is wrong with it
    #[command(after_help = "\
Example:
  headwater check headwater.toml")]
    Check {
        /// The file
        file: PathBuf,
    },
    /// Talk to an agent in the terminal: send, edit, regenerate, branch
    #[command(after_help = CHAT)]
    Chat(Chat),
    /// Draw a session's tree
    #[command(after_help = "\
Examples:
  headwater tree trip                what people see
  headwater tree trip --raw          every node, those that only models read too")]
    Tree(Tree),
    /// Write a session's whole log to a file
    #[command(after_help = "\
Examples:
  headwater export trip trip.jsonl
  headwater export trip | gzip > trip.jsonl.gz
  headwater export trip | headwater import --session trip-2

The file holds everything: all branches, in JSON lines, with a hash at its end. `import` makes the same session of it.")]
    Export(Export),
    /// Make a session of an exported file
    #[command(after_help = "\
Examples:
  headwater import trip.jsonl
  headwater import --session trip-2 < trip.jsonl

The session must not be there yet; importing the same file again changes nothing. A file that was cut or changed is refused.
A reply that was being written when the file was exported is ended.")]
    Import(Import),
}

const CHAT: &str = "\
Examples:
  headwater chat
  headwater chat --agent bot --session trip
  printf 'hi\\nand more\\n' | headwater chat      each line waits for the reply to the one before

What you type is sent; while a reply is being written it waits its turn. Lines that begin with / are commands; /help lists them.
Ctrl-C stops a reply, twice it leaves; Ctrl-D leaves too. In a pipe only replies go to standard output, and the exit code is 1
as soon as one fails. NO_COLOR and TERM=dumb are respected.";

/// How to serve.
#[derive(Args)]
pub struct Serve {
    /// A configuration file; without it: 127.0.0.1:8080, sqlite in ./headwater-data, an agent `demo`
    #[arg(long, value_name = "FILE", env = "HEADWATER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where to listen, as 127.0.0.1:8080
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
}

/// Where a command finds the sessions.
#[derive(Args)]
pub struct Place {
    /// The server; without it: the one that runs on this machine, else one of this command's own
    #[arg(long, value_name = "URL", env = "HEADWATER_SERVER")]
    pub server: Option<String>,
    /// The configuration that says where a server listens and where sessions are kept
    #[arg(long, value_name = "FILE", env = "HEADWATER_CONFIG")]
    pub config: Option<PathBuf>,
}

/// `headwater chat`.
#[derive(Args)]
pub struct Chat {
    /// Who answers; without it: the session's own agent, or the only one that there is
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The conversation to go on with; without it: a new one
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Where it is.
    #[command(flatten)]
    pub place: Place,
}

/// `headwater tree`.
#[derive(Args)]
pub struct Tree {
    /// Which session
    pub session: String,
    /// Every node at its place, also those that only models read
    #[arg(long)]
    pub raw: bool,
    /// Where it is.
    #[command(flatten)]
    pub place: Place,
}

/// `headwater export`.
#[derive(Args)]
pub struct Export {
    /// Which session
    pub session: String,
    /// The file to write, which must not be there yet; `-`: standard output
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// Where the session is.
    #[command(flatten)]
    pub place: Place,
}

/// `headwater import`.
#[derive(Args)]
pub struct Import {
    /// The file to read; `-`: standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The new session's name; without it: the one in the file
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// Where it comes to be.
    #[command(flatten)]
    pub place: Place,
}
