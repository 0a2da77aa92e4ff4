//! `[agent.<id>.context]`, as it is written. What it comes to is in [`Agent`](super::Agent).

use std::num::NonZeroU64;

use serde::Deserialize;

use super::strategy::{STRATEGIES, When};
use super::{RESERVE_TOKENS, summarize};
use crate::protocol::Size;

/// `[agent.<id>.context]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextOptions {
    /// How many tokens the model reads.
    pub window: Option<NonZeroU64>,
    /// How room is made; the first that applies is used.
    #[serde(default)]
    pub strategy: Vec<StrategyOptions>,
}

/// `[[agent.<id>.context.strategy]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyOptions {
    /// What it does.
    pub r#use: String,
    /// It applies when no turn ran for so long, at a turn's first call.
    pub idle_secs: Option<NonZeroU64>,
    /// It applies when the model would read more tokens.
    pub over_tokens: Option<NonZeroU64>,
    /// So many turns before the running one are kept word for word.
    pub keep_turns: Option<u32>,
    /// Instructions for the summary, instead of Headwater's own.
    pub prompt: Option<String>,
    /// The llm that writes the summary, instead of the agent's.
    pub llm: Option<String>,
    /// The model that writes it, instead of the llm's.
    pub model: Option<String>,
    /// Whether it is written while turns go on.
    pub background: Option<bool>,
}

/// Options that contradict each other, or of which nothing ever comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Which strategy's, from 0; none: the window's.
    pub strategy: Option<usize>,
    /// Which key is to blame.
    pub key: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub help: String,
}

impl ContextOptions {
    /// Whether the options make sense, for an agent with this system prompt.
    pub fn check(&self, system: Option<&str>) -> Result<(), Misfit> {
        let window = self.window.map(NonZeroU64::get);
        let system = system.map_or(0, |system| Size::of_text(system).tokens());
        if let Some(window) = window.filter(|&window| system >= window) {
            return Err(Misfit {
                strategy: None,
                key: "window",
                what: format!("the system prompt has about {system} tokens, and the model reads {window}"),
                help: "shorten `system`, or write what the model reads".to_owned(),
            });
        }
        for (index, strategy) in self.strategy.iter().enumerate() {
            strategy
                .check(window, system)
                .and_then(|()| self.must_be_reached(index, window))
                .map_err(|wrong| Misfit { strategy: Some(index), ..wrong })?;
        }
        Ok(())
    }

    /// The first strategy that applies is used: one that applies only when another before it does too never is.
    fn must_be_reached(&self, index: usize, window: Option<u64>) -> Result<(), Misfit> {
        let this = &self.strategy[index];
        let hides = |before: &&StrategyOptions| match (When::of(before, window), When::of(this, window)) {
            (When::Idle(before), When::Idle(this)) => before <= this,
            (When::Over(Some(first)), When::Over(Some(second))) => match (before.in_background(), this.in_background()) {
                (false, _) | (true, true) => first <= second,
                // The summary is to be ready before the call has to wait for one.
                (true, false) => second <= first,
            },
            (When::Over(None), When::Over(None)) => before.r#use == this.r#use,
            (When::Idle(_) | When::Over(_), When::Idle(_) | When::Over(_)) => false,
        };
        let Some(at) = self.strategy[..index].iter().position(|before| hides(&before)) else { return Ok(()) };
        let key = this.key_of_when();
        Err(wrong(
            key,
            format!("strategy {} would never be used: strategy {} applies whenever it does", index + 1, at + 1),
            "the first strategy that applies is used: put the rarer one first, or give it another threshold",
        ))
    }
}

impl StrategyOptions {
    /// Whether what it does is done while turns go on.
    pub(super) fn in_background(&self) -> bool {
        self.background == Some(true)
    }

    fn key_of_when(&self) -> &'static str {
        match (self.idle_secs, self.over_tokens) {
            (Some(_), _) => "idle_secs",
            (None, Some(_)) => "over_tokens",
            (None, None) => "use",
        }
    }

    fn check(&self, window: Option<u64>, system: u64) -> Result<(), Misfit> {
        let Some(kind) = STRATEGIES.iter().find(|kind| kind.name == self.r#use) else {
            let names: Vec<String> = STRATEGIES.iter().map(|kind| format!("{:?}", kind.name)).collect();
            return Err(wrong("use", format!("`{}` is not a strategy", self.r#use), &format!("write {}", names.join(" or "))));
        };
        if let Some(key) = self.given().find(|key| !kind.keys.contains(key)) {
            return Err(wrong(key, format!("`{key}` means nothing to `use = \"{}\"`", kind.name), "leave it out"));
        }
        if self.prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
            return Err(wrong("prompt", "an empty prompt asks for nothing".to_owned(), "leave it out for Headwater's own"));
        }
        self.check_when(window, system)
    }

    /// Keys that are given and don't say when it applies.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        let Self { r#use: _, idle_secs: _, over_tokens: _, keep_turns, prompt, llm, model, background } = self;
        let given = [
            ("keep_turns", keep_turns.is_some()),
            ("prompt", prompt.is_some()),
            ("llm", llm.is_some()),
            ("model", model.is_some()),
            ("background", background.is_some()),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key)
    }

    fn check_when(&self, window: Option<u64>, system: u64) -> Result<(), Misfit> {
        if self.idle_secs.is_some() && self.over_tokens.is_some() {
            let what = "a strategy applies after a pause or past a number of tokens, not both".to_owned();
            return Err(wrong("over_tokens", what, "write two strategies"));
        }
        if self.idle_secs.is_some() && self.in_background() {
            let what = "after a pause nothing goes on in the background: the next call waits for the summary".to_owned();
            return Err(wrong("background", what, "leave it out, or write `over_tokens` in the place of `idle_secs`"));
        }
        let When::Over(over) = When::of(self, window) else { return Ok(()) };
        match (over, window) {
            (None, _) if self.r#use == summarize::NAME && !self.in_background() => Ok(()),
            (None, _) => {
                Err(wrong("use", "without a window it would never apply".to_owned(), "write `window`, `idle_secs` or `over_tokens`"))
            }
            (Some(over), Some(window)) if over >= window => {
                Err(wrong("over_tokens", format!("the model reads {window} tokens at most"), "write fewer than the window"))
            }
            (Some(over), _) if over <= system => {
                let what = format!("it would always apply: past {over} tokens, and the system prompt has about {system} already");
                let help = format!("write `over_tokens`; without it a strategy applies past the window less {RESERVE_TOKENS} tokens");
                Err(wrong(self.key_of_when(), what, &help))
            }
            (Some(_), _) => Ok(()),
        }
    }
}

fn wrong(key: &'static str, what: String, help: &str) -> Misfit {
    Misfit { strategy: None, key, what, help: help.to_owned() }
}
