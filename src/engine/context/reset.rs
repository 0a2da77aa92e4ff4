//! `use = "reset"`: the model starts over. It reads the running turn's own messages and nothing of before.

use std::sync::Arc;

use super::cut::History;
use super::options::StrategyOptions;
use super::strategy::{Kind, Plan, Strategy, When};

/// What there is to configure.
pub(super) const KIND: Kind = Kind { name: "reset", keys: &[], make };

#[derive(Debug)]
struct Reset {
    when: When,
}

fn make(options: &StrategyOptions, window: Option<u64>) -> Arc<dyn Strategy> {
    Arc::new(Reset { when: When::of(options, window) })
}

impl Strategy for Reset {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn when(&self) -> When {
        self.when
    }

    fn plan(&self, history: &History<'_>) -> Option<Plan> {
        let messages = history.kept(history.cut(0)?);
        Some(Plan::Replace { messages })
    }
}
