//! What goes on beside a turn: messages that join it, things that happen, summaries that are written in the background. And how the
//! twin follows, whose calls are never held and read whatever waits.

use std::collections::HashMap;

use headwater::engine::Session;
use headwater::engine::record::{Body, CallStarted, DropReason, Record};
use headwater::ids::{CallId, NodeId};
use headwater::protocol::{CallErrorKind, Message, Role, Size};

use super::Room;
use crate::talk::{ATTEMPTS, Asked, Kind, Talk};

/// The background jobs so far.
#[derive(Default)]
pub struct Jobs {
    /// The one that is there: its attempts, and whether its summary is.
    running: Option<(CallId, u32, bool)>,
    /// Whether one failed or was of no use in the turn that is there.
    in_vain: bool,
}

impl Jobs {
    pub fn take(&mut self, record: &Record) {
        match &record.body {
            Body::TurnStarted(_) => self.in_vain = false,
            Body::JobStarted(started) => {
                let before = self.running.take();
                match before {
                    None => assert!(started.attempt == 1 && !self.in_vain, "one that was in vain isn't begun again in that turn"),
                    Some((id, attempt, is_written)) => {
                        assert!(id == started.job_id && attempt + 1 == started.attempt && !is_written, "one job at a time");
                    }
                }
                assert!(started.attempt <= ATTEMPTS + started.lost + started.summary.halved, "a summary is tried so often");
                self.running = Some((started.job_id.clone(), started.attempt, false));
            }
            Body::JobFinished(finished) => {
                let job = self.running.as_mut().filter(|(id, ..)| *id == finished.job_id).expect("a job is there");
                assert!(!finished.text.is_empty() && finished.attempt <= job.1 && !job.2, "the first summary counts");
                job.2 = true;
            }
            Body::JobFailed(failed) if failed.not_before.is_some() => {}
            Body::JobFailed(failed) => self.ended(&failed.job_id, true),
            Body::JobDropped(dropped) => self.ended(&dropped.job_id, dropped.reason == DropReason::NoGain),
            Body::ContextReplaced(replaced) if replaced.background => {
                let (_, _, is_written) = self.running.take().expect("a job is there");
                assert!(is_written && replaced.call_id.is_none() && !replaced.no_gain, "a summary is adopted that is there");
            }
            _ => {}
        }
    }

    fn ended(&mut self, id: &CallId, in_vain: bool) {
        assert_eq!(self.running.take().map(|(job, ..)| job).as_ref(), Some(id));
        self.in_vain |= in_vain;
    }

    pub fn same(&self, session: &Session) {
        let there = session.job.as_ref().map(|job| (job.id.clone(), job.attempt, job.text.is_some()));
        assert_eq!(there, self.running);
    }
}

impl Room {
    /// Something happens that isn't said: the next call reads it, or a turn begins for it.
    pub fn event(&mut self) {
        let world = &mut self.world;
        let id = world.fresh("event");
        let text = world.long(&format!("reports {id}"));
        let messages = vec![Message::text(Role::User, text).with_id(id.as_str().into())];
        let (run, show) = ([None, Some(true), Some(false)][world.number(3)], world.chance(2));
        let asked = Asked { kind: Kind::Event, messages, run, show, ..Asked::default() }.with_tools(&["pick"]);
        world.both_take(&asked);
    }

    /// The next thing of a background summary: it begins, is written, fails, is lost.
    pub fn job(&mut self) {
        let world = &mut self.world;
        let Some(job) = world.talk.session.job.clone() else {
            world.talk.begin_job();
            return;
        };
        let attempt = (world.chance(4) && job.attempt > 1).then_some(job.attempt - 1);
        match world.number(10) {
            0..=3 => {
                let text = world.fresh("background ");
                let text = world.long(&text);
                let up_to = self.readers_see(self.world.talk.session.tree.find(&job.summary.to));
                self.summaries.insert(text.clone(), up_to);
                self.world.talk.job_says(&text, attempt);
            }
            4 => drop(world.talk.job_says("  ", attempt)),
            5 => drop(world.talk.job_fails(CallErrorKind::TooLong, attempt)),
            6 => drop(world.talk.job_fails(CallErrorKind::Cut, attempt)),
            7 => drop(world.talk.job_fails(CallErrorKind::Refused, attempt)),
            _ => drop(world.talk.job_wakes()),
        }
    }

    /// A call of the twin's is never held, and nothing is too much for it: it reads what the session's call reads besides the path.
    pub fn twin_reads_the_same(&mut self) {
        let of = |talk: &Talk| talk.session.turn.as_ref().and_then(|turn| turn.call.clone()).filter(|call| !call.hidden);
        let (Some(here), Some(there)) = (of(&self.world.talk), of(&self.world.twin)) else { return };
        if here.arrivals == there.arrivals {
            return;
        }
        let turn_id = self.world.twin.session.turn.as_ref().unwrap().id.clone();
        let reply_id = self.world.fresh("twin");
        let started = CallStarted::of_path(turn_id, there.id, there.attempt + 1, reply_id.as_str().into());
        self.world.twin.write(vec![Body::CallStarted(CallStarted { arrivals: here.arrivals, ..started })]);
        self.world.learn();
    }

    /// The same waits here and there.
    pub fn arrivals_are_the_same(&self) {
        let waiting = |talk: &Talk, here: &dyn Fn(&NodeId) -> NodeId| {
            let of = |message: &std::sync::Arc<Message>| here(message.id.as_ref().unwrap());
            let arrivals = talk.session.arrivals.iter();
            arrivals.map(|arrival| (arrival.is_event(), arrival.messages.iter().map(of).collect::<Vec<_>>())).collect::<Vec<_>>()
        };
        let (here, there) = (waiting(&self.world.talk, &NodeId::clone), waiting(&self.world.twin, &|id| self.world.here(id)));
        assert_eq!(here, there, "the same waits for a call");
    }

    /// A call reads no more of what waits than there is room for, unless it is one thing alone.
    pub fn arrivals_fit(&self) {
        let session = &self.world.talk.session;
        let call = session.turn.as_ref().and_then(|turn| turn.call.as_ref()).unwrap();
        let waits = session.arrivals.len();
        assert!(call.attempt > 1 || call.arrivals > 0 || waits == 0 || self.came_since(&call.id), "the oldest one is read");
        let Some(most) = self.most() else { return };
        if call.attempt > 1 || call.arrivals <= 1 {
            return;
        }
        let head = session.head.map(|head| session.tree.node(head));
        let besides = if head.is_some_and(|head| head.reported) { Size::ZERO } else { self.besides() };
        let read = head.map_or(Size::ZERO, |head| head.load) + besides + session.arrivals.size(call.arrivals);
        assert!(read.tokens() <= most, "{} of what waits are read, {} tokens of {most}", call.arrivals, read.tokens());
    }

    /// Whether what waits came after the call had begun.
    fn came_since(&self, call: &CallId) -> bool {
        let mut begun = false;
        let mut first = HashMap::new();
        for stored in &self.world.talk.log {
            match Record::decode(stored).unwrap().body {
                Body::CallStarted(started) => begun |= started.call_id == *call,
                Body::ArrivalQueued(queued) => drop(first.insert(queued.turn_id, begun)),
                _ => {}
            }
        }
        self.world.talk.session.arrivals.iter().next().is_none_or(|oldest| first[&oldest.id])
    }

    /// The most that a model is to read: what no strategy and no window objects to.
    fn most(&self) -> Option<u64> {
        let window = self.options.window.map(std::num::NonZero::get);
        let readable = window.map(|window| if window > 16_000 { window - 16_000 } else { window / 2 });
        let own = self.options.strategy.iter().filter_map(|strategy| super::ledger::most(strategy, &self.options));
        own.chain(readable).min()
    }
}
