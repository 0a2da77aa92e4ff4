//! The table of everything that is counted or measured. `docs/operations.md` shows it; tests hold both together, and hold a real
//! server's readout against it.

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// What holds now.
    Gauge,
    /// How values spread.
    Histogram,
}

impl Kind {
    /// As it stands in the readout.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One name.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// Its name, unit last.
    pub name: &'static str,
    /// What it stands for.
    pub kind: Kind,
    /// Its labels. Each has few values: what is configured, or words of ours. Never an id, a session's name, or anybody's text.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub help: &'static str,
}

impl Meter {
    /// Makes it there, at 0; a process's own are there once the system told them.
    pub(super) fn begin(&self) {
        match self.kind {
            Kind::Counter => metrics::counter!(self.name).increment(0),
            Kind::Gauge if self.name.starts_with("headwater_") => metrics::gauge!(self.name).increment(0.0),
            Kind::Gauge | Kind::Histogram => {}
        }
    }

    /// Tells readers what it is.
    pub(super) fn describe(&self) {
        match self.kind {
            Kind::Counter => metrics::describe_counter!(self.name, self.help),
            Kind::Gauge => metrics::describe_gauge!(self.name, self.help),
            Kind::Histogram => metrics::describe_histogram!(self.name, self.help),
        }
    }
}

macro_rules! meters {
    ($($word:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal,)*) => {
        /// The names, for whoever counts.
        pub(crate) mod names {
            $(pub(crate) const $word: &str = $name;)*
        }

        /// Every name.
        pub const ALL: &[Meter] = &[
            $(Meter { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help },)*
        ];
    };
}

meters! {
    TURNS_STARTED = Counter "headwater_turns_started_total" ["agent"] "Turns that began to run",
    TURNS_ENDED = Counter "headwater_turns_ended_total" ["agent", "outcome"] "Turns that ended: completed, failed, cancelled",
    TURN_SECONDS = Histogram "headwater_turn_duration_seconds" ["agent", "outcome"] "From a turn's start to its end, waiting included",
    TURNS_RUNNING = Gauge "headwater_turns_running" [] "Turns that run now: a model answers, or the next attempt is waited for",
    TURNS_WAITING = Gauge "headwater_turns_waiting" [] "Turns of sessions in memory that wait for results of tools",
    TURNS_QUEUED = Gauge "headwater_turns_queued" [] "Turns of sessions in memory that wait for another",
    LLM_CALLS = Counter "headwater_llm_calls_total" ["llm"] "Model calls that began; attempts after the first don't count",
    LLM_ATTEMPTS = Counter "headwater_llm_attempts_total" ["llm", "outcome"] "Attempts of model calls that ended: completed, voided, or the kind of failure",
    LLM_ATTEMPT_SECONDS = Histogram "headwater_llm_attempt_duration_seconds" ["llm", "outcome"] "From an attempt's start to its end",
    LLM_FIRST_SECONDS = Histogram "headwater_llm_first_token_seconds" ["llm"] "From an attempt's start to the first thing that the model said",
    LLM_TOKENS = Counter "headwater_llm_tokens_total" ["llm", "kind"] "Tokens as providers reported them: input, output; of those cached and cache_write (input), reasoning (output)",
    DECISION_ATTEMPTS = Counter "headwater_decision_attempts_total" ["agent", "outcome"] "Attempts to ask an agent's worker that ended: answered, failed, timed_out, bad_answer, voided",
    DECISION_ATTEMPT_SECONDS = Histogram "headwater_decision_attempt_duration_seconds" ["agent", "outcome"] "From an attempt's start to its end",
    WORKER_BREAKER = Gauge "headwater_worker_breaker_open" ["agent"] "1 while a worker that failed again and again isn't asked (kind http)",
    HTTP_REQUESTS = Counter "headwater_http_requests_total" ["method", "route", "status"] "Requests that were answered, by the class of the status",
    HTTP_SECONDS = Histogram "headwater_http_request_duration_seconds" ["method", "route"] "Until the head of the answer, which a stream has long before its end",
    CONNECTIONS = Gauge "headwater_connections" [] "Connections now",
    SOCKETS = Gauge "headwater_sockets" [] "WebSockets now",
    STREAMS = Gauge "headwater_streams" [] "Answers now that are server-sent events",
    READERS_CUT = Counter "headwater_readers_cut_total" ["transport"] "Readers that were let go because they read too slowly",
    READERS_LAGGED = Counter "headwater_readers_lagged_total" [] "Times that a reader fell behind, and went on from the log",
    REFUSALS = Counter "headwater_refusals_total" ["code"] "What was refused, over HTTP and WebSocket",
    WORKERS_CONNECTED = Gauge "headwater_workers_connected" ["agent"] "Workers of an agent that dialled in and are connected now",
    SESSIONS = Gauge "headwater_sessions_resident" [] "Sessions in memory now",
    SESSIONS_OPENED = Counter "headwater_sessions_opened_total" [] "Sessions that came into memory",
    SESSIONS_CLOSED = Counter "headwater_sessions_closed_total" ["reason"] "Sessions that left memory: idle, room (another needed it), stopped, failed",
    APPENDS = Counter "headwater_store_appends_total" ["outcome"] "Appends as the store answered them: appended, duplicate, conflict, erased, full, failed",
    APPEND_SECONDS = Histogram "headwater_store_append_duration_seconds" [] "One append, until the store's answer",
    APPENDS_RUNNING = Gauge "headwater_store_appends_running" [] "Appends that wait for the store's answer now",
    SNAPSHOTS = Counter "headwater_store_snapshots_total" ["outcome"] "Snapshots of sessions: kept, refused, failed",
    BUILD_INFO = Gauge "headwater_build_info" ["version"] "1, with the version",
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" [] "Memory that the process has (Linux)",
    PROCESS_HANDLES = Gauge "process_open_fds" [] "Files, sockets and the like that the process has open (Linux)",
    PROCESS_START = Gauge "process_start_time_seconds" [] "When the process started, since 1970 (Linux)",
}
