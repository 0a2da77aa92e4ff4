//! Puts the server together: store, runtime, web; and takes it apart at SIGTERM. The only module that knows all others but the
//! engine.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::thread::JoinHandle;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use crate::config::{AuthMode, Config};
use crate::ids::AgentId;
use crate::runtime::{self, Llm, Runtime, WorkerOptions};
use crate::worker::socket::{self, Hub};
use crate::worker::{SocketOptions, Workers};
use crate::{provider, store, web, worker};

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
    /// An agent's worker can't be set up.
    #[error("can't set up [agent.{agent}.worker]")]
    Worker {
        /// Whose.
        agent: AgentId,
        /// Why.
        source: worker::SetupError,
    },
    /// An agent's worker that stands in the place of a model can't be set up.
    #[error("can't set up [agent.{agent}.worker]")]
    Relay {
        /// Whose.
        agent: AgentId,
        /// Why.
        source: provider::Error,
    },
    /// The system refuses something.
    #[error("the system refuses")]
    Io(#[from] std::io::Error),
    /// The sessions that were running can't be found.
    #[error("can't take up unfinished turns")]
    Recover(#[from] crate::protocol::Refusal),
    /// The thread of a server inside another command is gone.
    #[error("the server inside this command was lost")]
    Lost,
}

/// Serves until SIGTERM or SIGINT.
pub fn run(config: &Config) -> Result<(), Error> {
    let listener = listen(config.server.listen)?;
    say_who_may_ask(config);
    raise_descriptors();
    let runtime = runtime(config)?;
    actix_web::rt::System::new().block_on(async {
        let stop = stop_signal()?;
        serve(&runtime, config.server.clone(), listener, stop, Unfinished::TakenUp).await
    })
}

/// Takes as many descriptors as the system lets the process have: what it starts with is often 1024. A connection takes two.
fn raise_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the system doesn't let this process have more descriptors");
    }
}

/// Turns that the process before this one left unfinished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfinished {
    /// They go on now.
    TakenUp,
    /// Only those of sessions that somebody opens do.
    Left,
}

/// A server inside another command: on a port of its own that only this machine reaches, without log lines. Signals are the command's.
/// It leaves sessions alone that the command doesn't ask for.
pub struct Own {
    address: SocketAddr,
    stop: CancellationToken,
    thread: JoinHandle<Result<(), Error>>,
}

impl Own {
    /// Serves from now on: what is asked before it is ready waits.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let runtime = runtime(config)?;
        let options = web::Options { listen: address, workers: Some(1), ..config.server.clone() };
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(serve(&runtime, options, listener, stopped, Unfinished::Left))
        });
        Ok(Self { address, stop, thread })
    }

    /// Where it is.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it. A turn that runs may end first, as when any server stops.
    pub fn stop(self) -> Result<(), Error> {
        self.stop.cancel();
        self.thread.join().map_err(|_| Error::Lost)?
    }
}

/// Whoever starts a server should know who may use it.
fn say_who_may_ask(config: &Config) {
    let address = config.server.listen;
    match config.auth.mode {
        AuthMode::None if address.ip().is_loopback() => {
            tracing::info!(listen = %address, auth = "none", "no authentication: every program on this machine may do everything, and no other machine can connect");
        }
        AuthMode::None => {
            tracing::warn!(listen = %address, auth = "none", "no authentication, and `allow_open` says so: everyone who can reach this address may do everything");
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).map_err(|source| Error::Listen { address, source })
}

fn runtime(config: &Config) -> Result<Runtime, Error> {
    let store = store::open(&config.store)?;
    Ok(Runtime::new(runtime_options(config)?, store))
}

fn runtime_options(config: &Config) -> Result<runtime::Options, Error> {
    let llm = |(id, options): (&String, &provider::Options)| {
        // The configuration has its paths in full.
        let factory = provider::factory(options, Path::new("")).map_err(|source| Error::Llm { id: id.clone(), source })?;
        Ok((id.clone(), Llm { factory, attempts: provider::attempts(options), abilities: options.abilities() }))
    };
    let mut llms = config.llms.iter().map(llm).collect::<Result<BTreeMap<_, _>, Error>>()?;
    for (id, agent) in &config.agents {
        if let WorkerOptions::Agui(options) = &agent.worker {
            let made = provider::relay_factory(options, Path::new("")).map_err(|source| Error::Relay { agent: id.clone(), source });
            let (factory, attempts) = made?;
            llms.insert(agent.llm.clone(), Llm { factory, attempts, abilities: options.abilities() });
        }
    }
    let (workers, dialling) = workers(config)?;
    Ok(runtime::Options { agents: config.agents.clone(), llms, workers, dialling, limits: config.sessions.clone() })
}

/// Who decides for the agents, and where those dial in that do.
fn workers(config: &Config) -> Result<(Workers, Hub), Error> {
    let mut workers = Workers::new();
    let mut dial = BTreeMap::<AgentId, (socket::Agent, &SocketOptions)>::new();
    for (id, agent) in &config.agents {
        let wrong = |source| Error::Worker { agent: id.clone(), source };
        match &agent.worker {
            // An AG-UI agent stands in the place of a model: it isn't asked.
            WorkerOptions::None | WorkerOptions::Agui(_) => {}
            WorkerOptions::Http(options) => {
                let worker = worker::http(options, id, config.server.limits(), Path::new("")).map_err(wrong)?;
                workers.insert(id.clone(), worker);
            }
            WorkerOptions::Socket(options) => {
                let agent = worker::dials_in(options, Path::new("")).map_err(wrong)?;
                dial.insert(id.clone(), (agent, options));
            }
        }
    }
    let hub = Hub::new(dial.iter().map(|(id, (agent, _))| (id.clone(), agent.clone())).collect());
    workers.extend(dial.into_iter().map(|(id, (_, options))| (id, hub.worker(options.patience(), options.triggers.clone()))));
    Ok((workers, hub))
}

/// Serves until `stop`.
async fn serve(
    runtime: &Runtime,
    options: web::Options,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    unfinished: Unfinished,
) -> Result<(), Error> {
    let serving = web::serve(runtime, options, listener)?;
    for address in &serving.addresses {
        let agents: Vec<_> = runtime.agents().map(AgentId::as_str).collect();
        tracing::info!(%address, agents = agents.join(", "), "listening");
    }
    let server = actix_web::rt::spawn(serving.server);
    let recovered = match unfinished {
        Unfinished::TakenUp => runtime.recover().await?,
        Unfinished::Left => 0,
    };
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
