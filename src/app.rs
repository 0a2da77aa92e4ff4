//! Puts the server together: store, runtime, web; and takes it apart at SIGTERM. The only module that knows all others but the
//! engine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::Config;
use crate::runtime::{self, Llm, Runtime};
use crate::{provider, store, web};

/// The server can't start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can't be listened on.
    #[error("can't listen on {address}; if another server runs there, `--listen` takes another address")]
    Listen {
        /// Which address.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The store can't be opened.
    #[error("can't open the store")]
    Store(#[from] store::Error),
    /// An llm can't be set up.
    #[error("can't set up [llm.{id}]")]
    Llm {
        /// Which.
        id: String,
        /// Why.
        source: provider::Error,
    },
    /// The system refuses something.
    #[error("the system refuses")]
    Io(#[from] std::io::Error),
    /// The sessions that were running can't be found.
    #[error("can't take up unfinished turns")]
    Recover(#[from] crate::protocol::Refusal),
}

/// Serves until SIGTERM or SIGINT. `base` is where relative paths of scripts start.
pub fn run(config: &Config, base: &Path) -> Result<(), Error> {
    let address = config.server.listen;
    let listener = TcpListener::bind(address).map_err(|source| Error::Listen { address, source })?;
    let store = store::open(&config.store)?;
    let drain = Duration::from_secs(config.sessions.drain_secs);
    let runtime = Runtime::new(runtime_options(config, base)?, store);
    actix_web::rt::System::new().block_on(serve(&runtime, web_options(config), listener, drain))
}

/// Whether everything that `config` names can be set up: scripts, secrets. Starts nothing.
pub fn check(config: &Config, base: &Path) -> Result<(), Error> {
    runtime_options(config, base).map(drop)
}

fn runtime_options(config: &Config, base: &Path) -> Result<runtime::Options, Error> {
    let mut llms = std::collections::BTreeMap::new();
    for (id, options) in &config.llms {
        let factory = provider::factory(options, base).map_err(|source| Error::Llm { id: id.clone(), source })?;
        llms.insert(id.clone(), Llm { factory, attempts: provider::attempts(options) });
    }
    Ok(runtime::Options {
        agents: config.agents.clone(),
        llms,
        readers_max: config.sessions.readers_max.get(),
        reader_batches_max: config.sessions.reader_batches_max.get(),
        calls_per_turn_max: config.sessions.calls_per_turn_max.get(),
        idle_secs: config.sessions.idle_secs.get(),
        reply_bytes_max: 4 << 20,
    })
}

fn web_options(config: &Config) -> web::Options {
    let server = &config.server;
    web::Options {
        listen: server.listen,
        workers: (server.workers > 0).then_some(server.workers),
        origins: server.origins.iter().map(|origin| origin.as_str().to_owned()).collect(),
        body_bytes_max: server.body_bytes_max.get(),
        view_messages_max: server.view_messages_max.get(),
        content_bytes_max: server.content_bytes_max.get(),
        frame_bytes_max: server.frame_bytes_max.get(),
        message_bytes_max: server.message_bytes_max.get(),
        keep_alive_secs: server.keep_alive_secs.get(),
        ping_secs: server.ping_secs.get(),
        ..web::Options::default()
    }
}

/// Where relative paths of a configuration file start: beside it.
pub fn base_of(file: Option<&Path>) -> PathBuf {
    file.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_path_buf)
}

async fn serve(runtime: &Runtime, options: web::Options, listener: TcpListener, drain: Duration) -> Result<(), Error> {
    let stop = stop_signal()?;
    let serving = web::serve(runtime, options, listener)?;
    for address in &serving.addresses {
        tracing::info!(%address, "listening");
    }
    let server = actix_web::rt::spawn(serving.server);
    let recovered = runtime.recover().await?;
    if recovered > 0 {
        tracing::info!(sessions = recovered, "unfinished turns are taken up");
    }
    stop.await;
    tracing::info!("stopping: running turns may end");
    serving.draining.cancel();
    runtime.drain(drain).await;
    serving.handle.stop(true).await;
    server.await.map_err(std::io::Error::other)??;
    tracing::info!("stopped");
    Ok(())
}

/// Resolves at SIGTERM or SIGINT; the handlers are there from now on.
fn stop_signal() -> Result<impl Future<Output = ()>, Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
