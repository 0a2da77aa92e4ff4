//! The `headwater` program: arguments, configuration, log lines; the rest is the library's.

use std::process::ExitCode;

use clap::Parser;
use headwater::cli::{self, Arguments, Command, Serve};
use headwater::config::{self, Config, Flags};
use headwater::{app, provider, telemetry};

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            error.chain().skip(1).for_each(|cause| eprintln!("  because: {cause}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    provider::install_tls();
    match arguments.command.unwrap_or(Command::Serve(arguments.serve)) {
        Command::Check { file } => {
            let config = Config::load(Some(&file), config::environment(), &Flags::default())?;
            print!("{} is good\n{}", file.display(), cli::check(&config)?);
            Ok(())
        }
        Command::Serve(Serve { config: file, listen }) => {
            let config = Config::load(file.as_deref(), config::environment(), &Flags { listen })?;
            telemetry::init(&config.log)?;
            Ok(app::run(config)?)
        }
    }
}
