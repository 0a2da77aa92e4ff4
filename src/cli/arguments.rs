//! The command line. May not know what the commands do.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// An AG-UI gateway with a conversation engine inside.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// What to do; without one: serve.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to serve when no command is given.
    #[command(flatten)]
    pub serve: Serve,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Starts the server (also what happens without a command).
    Serve(Serve),
    /// Reads a configuration file and says what is in it, or what is wrong with it.
    Check {
        /// The file.
        file: PathBuf,
    },
}

/// How to serve.
#[derive(Args)]
pub struct Serve {
    /// A configuration file; without it: 127.0.0.1:8080, sqlite in ./headwater-data, an agent `demo`.
    #[arg(long, value_name = "FILE", env = "HEADWATER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where to listen, as 127.0.0.1:8080.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
}
