//! The `headwater` program: arguments, configuration, log lines; the rest is the library's.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use headwater::config::{self, Config, Flags};
use headwater::{app, cli, telemetry};

/// An AG-UI gateway with a conversation engine inside.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Subcommand)]
enum Command {
    /// Starts the server (also what happens without a command).
    Serve(Serve),
    /// Reads a configuration file and says what is in it, or what is wrong with it.
    Check {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Args)]
struct Serve {
    /// A configuration file; without it: 127.0.0.1:8080, sqlite in ./headwater-data, an agent `demo`.
    #[arg(long, value_name = "FILE", env = "HEADWATER_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen, as 127.0.0.1:8080.
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headwater: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command.unwrap_or(Command::Serve(arguments.serve)) {
        Command::Check { file } => {
            let config = Config::load(Some(&file), config::environment(), &Flags::default())?;
            print!("{} is good\n{}", file.display(), cli::check(&config)?);
        }
        Command::Serve(Serve { config: file, listen }) => {
            let config = Config::load(file.as_deref(), config::environment(), &Flags { listen })?;
            telemetry::init(&config.log)?;
            app::run(&config)?;
        }
    }
    Ok(())
}
