//! Puts the server together: store, runtime, web; and takes it apart at SIGTERM. The only module that knows all others but the
//! engine.

use std::net::TcpListener;
use std::path::Path;

use crate::config::Config;
use crate::ids::AgentId;
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

/// Serves until SIGTERM or SIGINT.
pub fn run(config: &Config) -> Result<(), Error> {
    let address = config.server.listen;
    let listener = TcpListener::bind(address).map_err(|source| Error::Listen { address, source })?;
    let store = store::open(&config.store)?;
    let runtime = Runtime::new(runtime_options(config)?, store);
    actix_web::rt::System::new().block_on(serve(&runtime, config.server.clone(), listener))
}

fn runtime_options(config: &Config) -> Result<runtime::Options, Error> {
    let llm = |(id, options): (&String, &provider::Options)| {
        // The configuration has its paths in full.
        let factory = provider::factory(options, Path::new("")).map_err(|source| Error::Llm { id: id.clone(), source })?;
        Ok((id.clone(), Llm { factory, attempts: provider::attempts(options) }))
    };
    let llms = config.llms.iter().map(llm).collect::<Result<_, Error>>()?;
    Ok(runtime::Options { agents: config.agents.clone(), llms, limits: config.sessions.clone() })
}

async fn serve(runtime: &Runtime, options: web::Options, listener: TcpListener) -> Result<(), Error> {
    let stop = stop_signal()?;
    let serving = web::serve(runtime, options, listener)?;
    for address in &serving.addresses {
        let agents: Vec<_> = runtime.agents().map(AgentId::as_str).collect();
        tracing::info!(%address, agents = agents.join(", "), "listening");
    }
    let server = actix_web::rt::spawn(serving.server);
    let recovered = runtime.recover().await?;
    if recovered > 0 {
        tracing::info!(sessions = recovered, "unfinished turns are taken up");
    }
    stop.await;
    tracing::info!("stopping: running turns may end");
    serving.draining.cancel();
    runtime.drain().await;
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
