//! A reply of an agent's in the making: what it has said, and which of its calls have results. May not know events.

/// The most tool calls of one reply.
const CALLS_MAX: usize = 256;

/// One reply.
#[derive(Debug, Default)]
pub(super) struct Making {
    /// The agent's name for the message whose text came last.
    pub text: Option<String>,
    /// The agent's name for the reasoning that came last, while nothing else came after it.
    pub thinking: Option<String>,
    /// The agent's names for what belongs to it.
    pub names: Vec<String>,
    /// Its calls; the place is the index.
    pub calls: Vec<Called>,
}

/// A call.
#[derive(Debug)]
pub(super) struct Called {
    /// The agent's name for it.
    pub id: String,
    pub stage: Stage,
    /// Whether it has arguments.
    pub has_arguments: bool,
    /// Whether the client offers the tool.
    pub is_clients: bool,
}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its arguments may still come.
    Open,
    /// It was made completely.
    Made,
    /// It has a result.
    Answered,
}

impl Making {
    /// Whether results of its calls may still come.
    pub fn awaits(&self) -> bool {
        self.calls.iter().any(|call| call.stage != Stage::Answered)
    }

    /// Whether all of its calls have results, of which there are some.
    pub fn is_carried_out(&self) -> bool {
        !self.calls.is_empty() && !self.awaits()
    }

    /// Whether nothing was said in it.
    pub fn is_empty(&self) -> bool {
        self.text.is_none() && self.thinking.is_none() && self.calls.is_empty()
    }

    /// The index of the last call of this name.
    pub fn place(&self, id: &str) -> Option<u32> {
        self.calls.iter().rposition(|call| call.id == id).and_then(|at| u32::try_from(at).ok())
    }

    /// One more call; its index. Nothing: there are too many.
    pub fn call(&mut self, id: &str, is_clients: bool) -> Option<u32> {
        if self.calls.len() == CALLS_MAX {
            return None;
        }
        self.calls.push(Called { id: id.to_owned(), stage: Stage::Open, has_arguments: false, is_clients });
        u32::try_from(self.calls.len() - 1).ok()
    }

    /// The call of this name whose arguments may still come.
    pub fn open(&mut self, id: &str) -> Option<(u32, &mut Called)> {
        self.find(|call| call.stage == Stage::Open && call.id == id)
    }

    /// The call of this name that has no result.
    pub fn awaiting(&mut self, id: &str) -> Option<(u32, &mut Called)> {
        self.find(|call| call.stage != Stage::Answered && call.id == id)
    }

    fn find(&mut self, is_it: impl Fn(&Called) -> bool) -> Option<(u32, &mut Called)> {
        let at = self.calls.iter().rposition(is_it)?;
        Some((u32::try_from(at).ok()?, &mut self.calls[at]))
    }
}
