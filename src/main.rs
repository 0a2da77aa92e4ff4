//! The `headwater` program: arguments, configuration, log lines; the rest is the library's.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use headwater::cli::{self, Arguments, Command, Found, Remote, Serve};
use headwater::config::{self, Config, Flags};
use headwater::{app, telemetry};

/// The C library's allocator slows every turn down once a long log was folded: it goes through the holes that this left.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            error.chain().skip(1).for_each(|cause| eprintln!("  because: {cause}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command.unwrap_or(Command::Serve(arguments.serve)) {
        Command::Check { file } => {
            let config = Config::load(Some(&file), config::environment(), &Flags::default())?;
            print!("{} is good\n{}", file.display(), cli::check(&config)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve(Serve { config: file, listen }) => {
            let config = Config::load(file.as_deref(), config::environment(), &Flags { listen })?;
            telemetry::init(&config.log)?;
            app::run(&config)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Chat(chat) => remote(Remote::Chat(chat)),
        Command::Tree(tree) => remote(Remote::Tree(tree)),
        Command::Export(export) => remote(Remote::Export(export)),
        Command::Import(import) => remote(Remote::Import(import, None)),
    }
}

/// A command that talks to a server, or brings its own.
fn remote(mut command: Remote) -> anyhow::Result<ExitCode> {
    match command.find()? {
        Found::Running(address) => Ok(command.run(&address, false)?),
        Found::Own(config) => {
            let own = app::Own::start(&config).with_context(|| {
                let listen = config.server.listen;
                format!("no server runs at {listen}, and this command can't be its own; if one runs elsewhere, name it with --server")
            })?;
            let code = command.run(&own.address(), true);
            own.stop()?;
            Ok(code?)
        }
    }
}
