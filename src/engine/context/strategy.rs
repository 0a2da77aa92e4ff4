//! What a strategy is, and which there are. A new one is a file beside [`reset`](super::reset) and a line in [`STRATEGIES`].

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use super::options::{ContextOptions, StrategyOptions};
use super::{cut::History, need::Need, readable, reset, summarize};
use crate::engine::decision::Asking;
use crate::engine::record::{StrategyNamed, Summary};
use crate::engine::state::Overrides;
use crate::engine::tools::Tools;
use crate::ids::{AgentId, Millis};
use crate::protocol::{AgentOverrides, ClientState, LimitReason, Message, Size};

/// A way to make room.
pub trait Strategy: Debug + Send + Sync {
    /// What it does, in a word: its `use`.
    fn name(&self) -> &'static str;

    /// When it applies.
    fn when(&self) -> When;

    /// Whether it works while turns go on: it never holds a call.
    fn in_background(&self) -> bool {
        false
    }

    /// What it would have done about `history`; nothing: there is nothing that it could do.
    fn plan(&self, history: &History<'_>) -> Option<Plan>;
}

/// What a strategy would have done.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The history is replaced by these.
    Replace {
        /// What is kept, and what is new.
        messages: Vec<Kept>,
    },
    /// A model summarizes the beginning, which is then replaced.
    Summarize {
        /// Of what.
        summary: Summary,
        /// Instead of the agent's llm.
        llm: Option<String>,
        /// Instead of the llm's model.
        model: Option<String>,
    },
}

/// A message of a shorter history.
#[derive(Clone, Debug)]
pub enum Kept {
    /// A copy of a node of the replaced path.
    Copy(crate::engine::Ix),
    /// A new one, for the model only.
    New(Box<Message>),
}

/// When a strategy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a turn's first call, when no turn ran for so long.
    Idle(Millis),
    /// When the model would read more tokens; none: only when a provider refuses a call.
    Over(Option<u64>),
}

impl When {
    /// As the options say, else by the window.
    pub(super) fn of(options: &StrategyOptions, window: Option<u64>) -> Self {
        let over = options.over_tokens.map(std::num::NonZeroU64::get);
        let pause = options.idle_secs.map(|secs| secs.get().saturating_mul(1000));
        pause.map_or_else(|| Self::Over(over.or_else(|| window.map(readable))), Self::Idle)
    }

    /// Whether that is now.
    fn applies(self, need: &Need) -> Option<LimitReason> {
        match self {
            Self::Idle(pause) => need.idle.filter(|&idle| idle >= pause).map(|_| LimitReason::Idle),
            Self::Over(most) => most.filter(|&most| need.tokens > most).map(|_| LimitReason::Full),
        }
    }

    /// The most tokens that the model is to read.
    pub(super) fn most(self) -> Option<u64> {
        match self {
            Self::Idle(_) => None,
            Self::Over(most) => most,
        }
    }
}

/// A kind of strategy.
#[derive(Debug)]
pub(super) struct Kind {
    /// Its `use`.
    pub(super) name: &'static str,
    /// Keys that mean something to it, besides those that say when it applies.
    pub(super) keys: &'static [&'static str],
    /// Makes one, for a model with such a window.
    pub(super) make: fn(&StrategyOptions, Option<u64>) -> Arc<dyn Strategy>,
}

/// The strategies there are.
pub(super) const STRATEGIES: &[Kind] = &[reset::KIND, summarize::KIND];

/// What the engine knows of a configured agent.
#[derive(Clone, Debug, Default)]
pub struct Agent {
    /// Its system prompt, as it is now.
    pub system: Size,
    /// Its system prompt, as it is configured.
    pub configured_system: Size,
    /// How many tokens its model reads.
    pub window: Option<u64>,
    /// How its worker is asked; none: it has none.
    pub worker: Option<Asking>,
    /// Its own tools.
    pub tools: Arc<Tools>,
    /// What becomes of the state that a client sends along.
    pub client_state: ClientState,
    /// Whether it runs elsewhere, and is given what a client sends along.
    pub is_elsewhere: bool,
    strategies: Vec<Arc<dyn Strategy>>,
}

/// The configured agents.
pub type Agents = HashMap<AgentId, Agent>;

/// The agents as they are where this is overridden.
pub fn overridden(agents: &Arc<Agents>, overrides: Option<&Overrides>) -> Arc<Agents> {
    let Some(overrides) = overrides.filter(|overrides| !overrides.is_empty()) else { return agents.clone() };
    let mut there = Agents::clone(agents);
    for (id, overrides) in overrides {
        if let Some(agent) = there.get_mut(id) {
            *agent = agent.overridden(overrides);
        }
    }
    Arc::new(there)
}

impl Agent {
    /// An agent with this system prompt and these options; strategies of an unknown name are left out.
    pub fn new(system: Option<&str>, options: &ContextOptions) -> Self {
        let window = options.window.map(std::num::NonZeroU64::get);
        let make = |options: &StrategyOptions| {
            let kind = STRATEGIES.iter().find(|kind| kind.name == options.r#use)?;
            Some((kind.make)(options, window))
        };
        let strategies = options.strategy.iter().filter_map(make).collect();
        let system = system.map_or(Size::ZERO, Size::of_text);
        Self { system, configured_system: system, window, strategies, ..Self::default() }
    }

    /// The same with a worker that is asked so; or without one.
    #[must_use]
    pub fn with_worker(self, worker: Option<Asking>) -> Self {
        Self { worker, ..self }
    }

    /// The same with these tools of its own.
    #[must_use]
    pub fn with_tools(self, tools: Arc<Tools>) -> Self {
        Self { tools, ..self }
    }

    /// The same, where this becomes of the state that a client sends along; `is_elsewhere`: it runs elsewhere, and is given that.
    #[must_use]
    pub fn with_client_state(self, client_state: ClientState, is_elsewhere: bool) -> Self {
        Self { client_state, is_elsewhere, ..self }
    }

    /// The same, as a branch overrides it.
    #[must_use]
    pub fn overridden(&self, overrides: &AgentOverrides) -> Self {
        let system = overrides.system.as_ref().map_or(self.configured_system, |system| Size::of_text(system));
        let asks = |asking: &Asking| Asking { llm: overrides.llm.clone().unwrap_or_else(|| asking.llm.clone()), ..asking.clone() };
        let tools = overrides.tools.as_ref().map(|tools| Arc::new(Tools::of_worker(tools)));
        let tools = tools.unwrap_or_else(|| self.tools.clone());
        Self { system, worker: self.worker.as_ref().map(asks), tools, ..self.clone() }
    }

    /// Whether the state that a client sends along becomes the session's.
    pub(in crate::engine) fn takes_client_state(&self) -> bool {
        match self.client_state {
            ClientState::Ignore => false,
            ClientState::Offer => self.worker.is_none() && !self.is_elsewhere,
            ClientState::Accept => true,
        }
    }

    /// The first strategy that applies before a call, and why.
    pub(in crate::engine) fn applies(&self, need: &Need) -> Option<(StrategyNamed, LimitReason)> {
        self.first(need, false)
    }

    /// The first one that applies while turns go on.
    pub(super) fn applies_in_background(&self, need: &Need) -> Option<StrategyNamed> {
        self.first(need, true).map(|(named, _)| named)
    }

    fn first(&self, need: &Need, in_background: bool) -> Option<(StrategyNamed, LimitReason)> {
        let all = (0..).zip(&self.strategies);
        all.filter(|(_, strategy)| strategy.in_background() == in_background).find_map(|(index, strategy)| {
            let reason = strategy.when().applies(need)?;
            Some((StrategyNamed { index, name: strategy.name().to_owned() }, reason))
        })
    }

    /// The most tokens that the model is to read: less than any strategy lets it, and than its window.
    pub(in crate::engine) fn most(&self) -> Option<u64> {
        let own = self.strategies.iter().filter_map(|strategy| strategy.when().most());
        own.chain(self.window.map(readable)).min()
    }

    /// The strategy that is meant, when it is still configured.
    pub(super) fn strategy(&self, named: &StrategyNamed) -> Option<&dyn Strategy> {
        self.strategies.get(named.index as usize).map(AsRef::as_ref).filter(|strategy| strategy.name() == named.name)
    }

    /// The one that summarizes when a provider refuses a call.
    pub(super) fn summarizing(&self) -> Option<StrategyNamed> {
        let at = self.strategies.iter().position(|strategy| strategy.name() == summarize::NAME)?;
        Some(StrategyNamed { index: u32::try_from(at).ok()?, name: summarize::NAME.to_owned() })
    }
}
