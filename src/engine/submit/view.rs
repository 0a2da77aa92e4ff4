//! `client.messages`: a view is reconciled; then the turn that is there decides what becomes of it.

use std::borrow::Cow;

use super::results::calls_open;
use super::{Case, answerable, reply_due_at};
use crate::engine::reading::{EMPTY, Ix};
use crate::engine::record::HeadMoved;
use crate::engine::turn::Turn;
use crate::engine::view::{News, Reconciled, View, reconcile, reconcile_without};
use crate::ids::{NodeId, TurnId};
use crate::protocol::{Accepted, CancelReason, Code, Message, OnBusy, Refusal, Role, ViewOptions};

/// A view, and what it comes to.
pub(super) struct Sent<'v> {
    pub(super) view: &'v View,
    pub(super) options: ViewOptions,
    pub(super) found: Reconciled,
}

impl<'v> Sent<'v> {
    /// The results of open calls that it brings.
    pub(super) fn answers(&self) -> Vec<&'v Message> {
        let view = self.view;
        let of = |news: &News| match news {
            News::Result(index) => Some(&view.messages[*index]),
            News::Message { .. } | News::Copy(_) => None,
        };
        self.found.news.iter().filter_map(of).collect()
    }

    /// What else it brings, when that is new messages of the user's and nothing more.
    pub(super) fn said(&self) -> Option<Vec<Cow<'v, Message>>> {
        let view = self.view;
        let others = self.found.news.iter().filter(|news| !matches!(news, News::Result(_)));
        let of = |news: &News| match news {
            News::Message { index, edit_of: None } => {
                Some(&view.messages[*index]).filter(|message| message.role == Role::User).map(Cow::Borrowed)
            }
            News::Message { edit_of: Some(_), .. } | News::Result(_) | News::Copy(_) => None,
        };
        others.map(of).collect::<Option<Vec<_>>>().filter(|said| !said.is_empty())
    }
}

impl Case<'_> {
    pub(super) fn view(&mut self, view: &View, options: ViewOptions) -> Result<Accepted, Refusal> {
        let session = self.session;
        let found = reconcile(&session.tree, session.head, view, options)?;
        let mut sent = Sent { view, options, found };
        let accepted = match &session.turn {
            None => self.land(&sent),
            Some(turn) if !turn.interrupts.is_empty() => self.at_interrupted(turn, &mut sent),
            Some(turn) if sent.found.news.is_empty() => self.without_news(turn, &sent),
            Some(turn) if session.is_waiting() => self.at_waiting(turn, &mut sent),
            Some(turn) => self.at_running(turn, &mut sent),
        }?;
        Ok(tell(sent.found, accepted))
    }

    /// A view that brings nothing is the turn's own, or leaves its branch.
    fn without_news(&mut self, turn: &Turn, sent: &Sent<'_>) -> Result<Accepted, Refusal> {
        let session = self.session;
        let (tree, landing) = (&session.tree, sent.found.landing);
        let waits = session.is_waiting();
        if let Some(turn) = self.last_waits(sent.view) {
            return Ok(self.known(Some(turn)));
        }
        if waits && self.is_where_it_waits(landing) {
            if self.submit.run == Some(true) {
                return Err(calls_open());
            }
            let waiting = tree.open_calls().to_vec();
            // Of results that the client doesn't hold it is told.
            let resync = tree.vertex(landing) != tree.vertex(session.head);
            return Ok(Accepted { turn_id: turn.id.clone(), reply: false, waiting, resync, ..self.plain() });
        }
        let (readings, at) = (tree.readings(), tree.vertex(landing));
        if !waits && readings.extends(tree.vertex(session.head), at) && readings.extends(at, turn.began) {
            return Err(self.busy(turn));
        }
        self.writer.leave(turn, Some(CancelReason::BranchLeft));
        self.land(sent)
    }

    /// The waiting turn that brings a view's last message: who sends that again asks for that turn.
    pub(super) fn last_waits(&self, view: &View) -> Option<TurnId> {
        let told = |message: &&Message| match message.role {
            Role::User | Role::Assistant | Role::Tool => true,
            Role::System | Role::Developer | Role::Reasoning | Role::Activity => false,
        };
        let id = view.messages.iter().rfind(told)?.id.as_ref()?;
        self.session.waiting_in(id).filter(|_| self.session.tree.find(id).is_none())
    }

    fn at_running(&mut self, turn: &Turn, sent: &mut Sent<'_>) -> Result<Accepted, Refusal> {
        let session = self.session;
        let tree = &session.tree;
        let answers = sent.answers();
        if !answers.is_empty() {
            let alone = answers.len() == sent.found.news.len();
            return if alone && session.takes_results() { self.results(&answers) } else { Err(self.busy(turn)) };
        }
        let is_at_head = tree.vertex(sent.found.landing) == tree.vertex(session.head);
        match (self.submit.on_busy, sent.said()) {
            (OnBusy::Queue | OnBusy::Merge | OnBusy::Steer, said) => match said.filter(|_| self.is_on_path(sent.found.landing)) {
                Some(said) => self.follow(&said, &[]),
                None => Err(self.busy(turn)),
            },
            (OnBusy::Cancel, _) if !is_at_head => {
                self.leave_for(turn, None, sent)?;
                self.land(sent)
            }
            (OnBusy::Cancel, _) if self.nobody_waits() => self.stop_and_land(turn, sent),
            (OnBusy::Cancel, Some(said)) => self.follow(&said, &[]),
            // What isn't plainly said can't wait behind the others.
            (OnBusy::Refuse, _) | (OnBusy::Cancel, None) => Err(self.busy(turn)),
        }
    }

    /// The turn is stopped at the head; the view goes on below what was kept of its reply when it names that, else beside it.
    fn stop_and_land(&mut self, turn: &Turn, sent: &Sent<'_>) -> Result<Accepted, Refusal> {
        let tree = &self.session.tree;
        let reply = turn.call.as_ref().and_then(|call| tree.known(&call.reply_id));
        let names_reply = |message: &Message| message.id.as_ref().and_then(|id| tree.known(id)) == reply;
        let below = sent.found.appended || (reply.is_some() && sent.view.messages.iter().any(names_reply));
        let before = self.writer.parent.clone();
        self.writer.stop(turn, None, !below);
        let at = self.writer.parent.clone();
        if at == before { self.land(sent) } else { self.land_at(sent, at) }
    }

    /// A turn that waits for results gets them, or something else.
    fn at_waiting(&mut self, turn: &Turn, sent: &mut Sent<'_>) -> Result<Accepted, Refusal> {
        let answers = sent.answers();
        if answers.len() == sent.found.news.len() {
            return self.results(&answers);
        }
        let is_here = self.is_where_it_waits(sent.found.landing);
        match (self.submit.on_busy, sent.said()) {
            (OnBusy::Queue | OnBusy::Merge | OnBusy::Steer, said) => match said.filter(|_| self.is_on_path(sent.found.landing)) {
                Some(said) => self.follow(&said, &answers),
                None => Err(self.busy(turn)),
            },
            (OnBusy::Refuse | OnBusy::Cancel, _) if !is_here => {
                self.leave_for(turn, Some(CancelReason::Superseded), sent)?;
                self.land(sent)
            }
            (OnBusy::Refuse | OnBusy::Cancel, Some(said)) => self.follow(&said, &answers),
            (OnBusy::Refuse | OnBusy::Cancel, None) if self.nobody_waits() => {
                if answers.is_empty() {
                    self.writer.stop(turn, Some(CancelReason::Superseded), false);
                    return self.land(sent);
                }
                self.write_results(&answers);
                self.writer.stop(turn, Some(CancelReason::Superseded), false);
                sent.found.news.retain(|news| !matches!(news, News::Result(_)));
                let at = self.writer.parent.clone();
                self.land_at(sent, at)
            }
            // What isn't plainly said can't wait behind the others.
            (OnBusy::Refuse | OnBusy::Cancel, None) => Err(self.busy(turn)),
        }
    }

    /// The turn's branch is left for where the view lands. What waited for it is given up: the view's own messages among that are
    /// new again.
    fn leave_for(&mut self, turn: &Turn, reason: Option<CancelReason>, sent: &mut Sent<'_>) -> Result<(), Refusal> {
        let session = self.session;
        if !self.nobody_waits() {
            let steers = |id: &NodeId| session.arrivals.bringing(id).is_some_and(|arrival| !arrival.is_event());
            let waits = |id: &NodeId| session.queue.bringing(id).is_some() || steers(id);
            sent.found = reconcile_without(&session.tree, session.head, sent.view, sent.options, waits)?;
        }
        self.writer.leave(turn, reason);
        Ok(())
    }

    pub(super) fn land(&mut self, sent: &Sent<'_>) -> Result<Accepted, Refusal> {
        let landing = sent.found.landing;
        let asks = !sent.found.news.is_empty() || self.submit.run == Some(true);
        if let Some(decided) = self.at_suspended(landing, asks) {
            return decided;
        }
        let asks_again = sent.found.news.is_empty() && self.reply_due(sent.view, &sent.found)?;
        let at = if asks_again { answerable(&self.session.tree, landing) } else { landing };
        self.land_at(sent, super::id_of(self.session, at))
    }

    /// Writes a view's news below `at` and begins a turn, when a reply is due.
    fn land_at(&mut self, sent: &Sent<'_>, at: Option<NodeId>) -> Result<Accepted, Refusal> {
        let session = self.session;
        let Sent { view, found, .. } = sent;
        let reply = self.reply_due(view, found)?;
        let is_silent = !reply && found.news.is_empty();
        // Only custom nodes lie between; a view that asks for nothing leaves none behind.
        let stays = is_silent && session.tree.vertex(found.landing) == session.tree.vertex(session.head);
        if !stays {
            self.writer.attach_to(at);
        }
        if !is_silent {
            self.create();
        }
        let recorded = self.writer.news(view, &found.news);
        if found.news.is_empty() && !stays && self.writer.parent != super::id_of(session, session.head) {
            let named = (!reply).then(|| self.turn_id.clone());
            let digest = named.is_some().then_some(self.submit.digest);
            self.writer.head_moved(HeadMoved { turn_id: named, digest, ..HeadMoved::default() });
        }
        if !is_silent {
            let started = self.started();
            self.writer.begin(started, reply);
        }
        Ok(Accepted { reply, recorded, ..self.plain() })
    }

    /// Whether a reply is due: when the conversation then ends with a user message or with a complete set of results.
    fn reply_due(&self, view: &View, found: &Reconciled) -> Result<bool, Refusal> {
        let tree = &self.session.tree;
        match self.submit.run {
            Some(true) if found.landing.is_none() && found.news.is_empty() => {
                return Err(Refusal::new(Code::BadRequest, "there is nothing to reply to; send a message"));
            }
            Some(run) => return Ok(run),
            None => {}
        }
        let role = match found.news.last() {
            Some(News::Message { index, .. } | News::Result(index)) => view.messages[*index].role,
            Some(News::Copy(ix)) => tree.node(*ix).role,
            None => return Ok(reply_due_at(tree, found.landing)),
        };
        Ok(matches!(role, Role::User | Role::Tool))
    }

    /// Whether a view lands on what people read at the head; with a shorter history for the model that may be another branch.
    pub(super) fn is_on_path(&self, landing: Option<Ix>) -> bool {
        let tree = &self.session.tree;
        let (at, head) = (tree.vertex(landing), tree.vertex(self.session.head));
        if at == EMPTY { head == EMPTY } else { tree.readings().extends(head, at) }
    }

    /// Whether a view ends where the turn waits: at the head, or above nothing but results.
    pub(super) fn is_where_it_waits(&self, landing: Option<Ix>) -> bool {
        let tree = &self.session.tree;
        let (at, head) = (tree.vertex(landing), tree.vertex(self.session.head));
        tree.below_results(at, head) == head
    }
}

/// The answer, with what is told of the view.
pub(super) fn tell(found: Reconciled, accepted: Accepted) -> Accepted {
    let edited = found.news.iter().any(|news| matches!(news, News::Message { edit_of: Some(_), .. }));
    let resync = accepted.resync || found.appended || found.behind || edited;
    let Reconciled { new_from, implied, implied_count, ignored, ignored_edits, root_branch, .. } = found;
    Accepted { new_from: Some(new_from), implied, implied_count, ignored, ignored_edits, root_branch, resync, ..accepted }
}
