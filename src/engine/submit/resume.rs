//! `interrupt.resume`: all that pauses a turn is answered in one go, and the turn goes on; where the head is elsewhere, it comes back. An
//! answer that comes again changes nothing.

use std::collections::HashSet;

use super::results::calls_open;
use super::view::tell;
use super::{Case, View};
use crate::engine::interrupt::Suspended;
use crate::engine::reading::Ix;
use crate::engine::record::{Body, HeadMoved, TurnJoined};
use crate::engine::turn::Turn;
use crate::engine::view::{News, Reconciled, reconcile};
use crate::ids::{InterruptId, ToolCallId};
use crate::protocol::{Accepted, Code, Interrupt, Message, Refusal, Resume, ResumeStatus, Role, Schema, ViewOptions};

/// A turn that pauses, and where.
#[derive(Clone, Copy)]
struct Paused<'a> {
    turn: &'a Turn,
    at: Option<Ix>,
    calls: &'a [ToolCallId],
    /// When the head isn't there.
    suspended: Option<&'a Suspended>,
}

/// A view that comes with answers, and what it comes to below the node where the turn pauses.
struct Along<'v> {
    view: &'v View,
    found: Reconciled,
    /// Calls that have no result then.
    open: Vec<ToolCallId>,
    /// Whether it says something new.
    says: bool,
    /// Whether the front end has all that stands where the turn pauses.
    is_whole: bool,
}

impl<'s> Case<'s> {
    /// Takes answers, and what a front end's view brings with them.
    pub(super) fn resume(&mut self, answers: &[Resume], view: Option<(&View, ViewOptions)>) -> Result<Accepted, Refusal> {
        let Some(paused) = self.paused(answers)? else { return self.resumed_before(answers, view) };
        must_cover(paused.turn, answers)?;
        for (index, answer) in answers.iter().enumerate() {
            if let Some(open) = paused.turn.interrupts.iter().find(|open| open.id == answer.interrupt_id) {
                self.must_answer(index, open, answer)?;
            }
        }
        let along = view.map(|(view, options)| self.along(paused, view, options)).transpose()?;
        self.go_to(paused)?;
        let recorded = along.as_ref().map(|along| self.writer.news(along.view, &along.found.news)).unwrap_or_default();
        let is_open = |answer: &&Resume| paused.turn.interrupts.iter().any(|open| open.id == answer.interrupt_id);
        let answers: Vec<Resume> = answers.iter().filter(is_open).cloned().collect();
        let resolved = answers.iter().any(|answer| answer.status == ResumeStatus::Resolved);
        self.writer.resolve(paused.turn, answers);
        let turn = self.joined(paused.turn);
        let says = along.as_ref().is_some_and(|along| along.says);
        let reply = self.submit.run != Some(false) && (resolved || says);
        let open = along.as_ref().map_or(paused.calls, |along| &along.open);
        self.writer.go_on_after_interrupts(&turn, open, reply);
        // Without a worker it goes on waiting for them.
        let waiting = if reply && self.writer.asking(&turn.agent_id).is_none() { open.to_vec() } else { Vec::new() };
        let resync = paused.suspended.is_some() || along.as_ref().is_some_and(|along| !along.is_whole);
        let accepted = Accepted { turn_id: turn.id, reply: reply && waiting.is_empty(), waiting, recorded, resync, ..self.plain() };
        Ok(match along {
            Some(along) => tell(along.found, accepted),
            None => accepted,
        })
    }

    /// The turn that pauses for what is answered. Nothing: all of it was answered like that before.
    fn paused(&self, answers: &[Resume]) -> Result<Option<Paused<'s>>, Refusal> {
        if answers.is_empty() {
            return Err(Refusal::new(Code::BadRequest, "there is no answer to any interrupt").with("at", "interrupts"));
        }
        let mut seen = HashSet::new();
        let mut found: Option<Paused<'s>> = None;
        for (index, answer) in answers.iter().enumerate() {
            let id = &answer.interrupt_id;
            if !seen.insert(id) {
                let text = format!("interrupts[{index}]: {id} is answered twice in the same input");
                return Err(Refusal::new(Code::BadRequest, text).with("at", format!("interrupts[{index}]")));
            }
            let Some(paused) = self.pauses_for(id) else {
                self.must_be_the_same(index, answer)?;
                continue;
            };
            match found {
                Some(before) if before.turn.id != paused.turn.id => {
                    let text =
                        format!("interrupts[{index}]: {id} is of another turn than those before it; answer each turn's on their own");
                    return Err(Refusal::new(Code::BadRequest, text).with("at", format!("interrupts[{index}]")));
                }
                Some(_) | None => found = Some(paused),
            }
        }
        Ok(found)
    }

    fn pauses_for(&self, id: &InterruptId) -> Option<Paused<'s>> {
        let session = self.session;
        let asks = |turn: &Turn| turn.interrupts.iter().any(|open| open.id == *id);
        if let Some(turn) = session.turn.as_ref().filter(|turn| asks(turn)) {
            return Some(Paused { turn, at: session.head, calls: session.tree.open_calls(), suspended: None });
        }
        let suspended = session.suspended().iter().find(|suspended| asks(&suspended.turn))?;
        Some(Paused { turn: &suspended.turn, at: suspended.at, calls: &suspended.calls, suspended: Some(suspended) })
    }

    /// An interrupt that isn't open was answered just like that.
    fn must_be_the_same(&self, index: usize, answer: &Resume) -> Result<(), Refusal> {
        let (session, id) = (self.session, &answer.interrupt_id);
        let refuse = |code, text: String| {
            let open: Vec<&str> = session.pausing().flat_map(|turn| &turn.interrupts).map(|open| open.id.as_str()).collect();
            let refusal = Refusal::new(code, format!("interrupts[{index}]: {text}"));
            Err(refusal.with("interrupt_id", id.as_str()).with("open", open))
        };
        match session.interrupts.ended.get(id) {
            None => {
                refuse(Code::InterruptNotFound, format!("the session has no interrupt {id}; the session's page lists those that are open"))
            }
            Some(settled) if settled.digest == answer.digest() => Ok(()),
            Some(_) => refuse(Code::InterruptClosed, format!("the interrupt {id} ended before, with another answer; that stays")),
        }
    }

    /// All was answered before. A view that brings something is a submit like any other.
    fn resumed_before(&mut self, answers: &[Resume], view: Option<(&View, ViewOptions)>) -> Result<Accepted, Refusal> {
        let session = self.session;
        if let Some((view, options)) = view
            && !reconcile(&session.tree, session.head, view, options)?.news.is_empty()
        {
            return self.view(view, options);
        }
        let settled = answers.first().and_then(|answer| session.interrupts.ended.get(&answer.interrupt_id));
        Ok(self.known(settled.map(|settled| settled.turn_id.clone())))
    }

    /// Whether an answer can be one to this interrupt.
    fn must_answer(&self, index: usize, open: &Interrupt, answer: &Resume) -> Result<(), Refusal> {
        let place = format!("interrupts[{index}]");
        let refuse = |code, text: String| Err(Refusal::new(code, format!("{place}: {text}")).with("interrupt_id", open.id.as_str()));
        match answer.status {
            ResumeStatus::Cancelled if answer.payload.is_some() => {
                refuse(Code::BadRequest, "one that is cancelled has no payload".to_owned())
            }
            ResumeStatus::Cancelled => Ok(()),
            ResumeStatus::Resolved if open.expires().is_some_and(|at| at <= self.writer.now()) => {
                let at = open.expires_at.as_deref().unwrap_or_default();
                refuse(Code::InterruptExpired, format!("the interrupt {} expired at {at}; it can only be cancelled", open.id))
            }
            ResumeStatus::Resolved => {
                // It was looked at when the interrupt was raised; what an upstream raises may be anything.
                let Some(Ok(schema)) = open.response_schema.as_ref().map(Schema::new) else { return Ok(()) };
                schema.check(answer.payload.as_ref()).map_err(|misfit| {
                    let text = format!("{place}.payload: it doesn't fit the interrupt's response_schema at {misfit}");
                    let refusal = Refusal::new(Code::PayloadMismatch, text).with("interrupt_id", open.id.as_str());
                    refusal.with("at", format!("{place}.payload")).with("pointer", misfit.at)
                })
            }
        }
    }

    /// What a view brings to a turn that pauses. One that brings nothing may stand anywhere.
    fn along<'v>(&self, paused: Paused<'_>, view: &'v View, options: ViewOptions) -> Result<Along<'v>, Refusal> {
        let tree = &self.session.tree;
        let found = reconcile(tree, paused.at, view, options)?;
        let here = tree.vertex(paused.at);
        let is_here = tree.below_results(tree.vertex(found.landing), here) == here;
        if !is_here && !found.news.is_empty() {
            let text = "what comes with resume goes on where the turn pauses, and these messages belong elsewhere; send them alone, or resume alone";
            return Err(Refusal::new(Code::BadRequest, text).with("at", "messages"));
        }
        let of_view = |news: &News| match news {
            News::Result(index) | News::Message { index, .. } => Some(&view.messages[*index]),
            News::Copy(_) => None,
        };
        let answers = |id: &ToolCallId, message: &Message| message.role == Role::Tool && message.tool_call_id.as_ref() == Some(id);
        let is_open = |id: &&ToolCallId| !found.news.iter().filter_map(of_view).any(|message| answers(id, message));
        let open: Vec<ToolCallId> = paused.calls.iter().filter(is_open).cloned().collect();
        let says = found.news.iter().any(|news| !matches!(news, News::Result(_)));
        if says && !open.is_empty() {
            return Err(calls_open());
        }
        let is_whole = is_here && !found.behind;
        Ok(Along { view, found, open, says, is_whole })
    }

    /// The head goes to where the turn pauses, when it isn't there.
    fn go_to(&mut self, paused: Paused<'_>) -> Result<(), Refusal> {
        let Some(suspended) = paused.suspended else { return Ok(()) };
        match &self.session.turn {
            Some(turn) if turn.interrupts.is_empty() => return Err(self.busy(turn)),
            Some(turn) => self.writer.suspend(turn),
            None => {}
        }
        self.writer.go_to(suspended.at);
        self.writer.head_moved(HeadMoved::default());
        self.writer.show_again(suspended);
        Ok(())
    }

    /// The input is one more name of the turn.
    pub(super) fn join(&mut self, turn: &Turn) {
        self.writer.push(Body::TurnJoined(Box::new(TurnJoined {
            turn_id: turn.id.clone(),
            name: self.turn_id.clone(),
            digest: self.submit.digest,
            client: self.submit.client.clone(),
        })));
    }

    /// The input is one more name of the turn. The turn as it is then.
    fn joined(&mut self, turn: &Turn) -> Turn {
        let client = self.submit.client.clone();
        self.join(turn);
        let mut turn = Turn { interrupts: Vec::new(), ..turn.clone() };
        turn.client.merge(client);
        turn
    }
}

/// Refuses an answer that leaves something open.
fn must_cover(turn: &Turn, answers: &[Resume]) -> Result<(), Refusal> {
    let is_missing = |open: &&Interrupt| !answers.iter().any(|answer| answer.interrupt_id == open.id);
    let missing: Vec<&str> = turn.interrupts.iter().filter(is_missing).map(|open| open.id.as_str()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!("all that pauses the turn {} is answered in one go; missing: {}", turn.id, missing.join(", "));
    Err(Refusal::new(Code::InterruptsOpen, text).with("turn_id", turn.id.as_str()).with("missing", missing))
}
