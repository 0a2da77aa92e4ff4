//! Laws of forks, of whatever made-up front ends left behind: the fork reads as its source, under fresh ids, and whoever holds the
//! source's conversation goes on in the fork with it.

use headwater::engine;
use headwater::engine::Ix;
use headwater::engine::record::Body;
use headwater::ids::NodeId;
use headwater::protocol::{Message, Role, ViewOptions};

use crate::front_ends::{World, brief};
use crate::talk::{Asked, Talk, listed};

impl World {
    /// Forks at the head and at any node that readers see, and forks that again.
    pub fn forks(&mut self) {
        if self.talk.session.agent_id.is_none() {
            return;
        }
        let (_, nodes) = listed(&self.talk.session);
        let at = nodes.get(self.number(nodes.len().max(1) * 2)).map(|node| node.id.clone());
        let mut fork = forked(&mut self.talk, at.as_ref());
        // The twin uses up a stamp too.
        self.twin.context();
        let (_, nodes) = listed(&fork.session);
        let again = nodes.get(self.number(nodes.len().max(1) * 2)).map(|node| node.id.clone());
        forked(&mut fork, again.as_ref());
        if at.is_none() && self.talk.session.turn.is_none() {
            self.what_is_held_is_known_in(&mut fork);
        }
    }

    /// What the front end holds of the source writes nothing in the fork.
    fn what_is_held_is_known_in(&mut self, fork: &mut Talk) {
        let tab = self.tabs[self.acting].clone();
        for messages in [tab.list.iter().map(|held| held.message.clone()).collect(), self.quirky(&tab.list).0] {
            writes_no_node(fork, &messages, tab.options);
        }
    }
}

/// A fork at a node, held against its source.
fn forked(source: &mut Talk, at: Option<&NodeId>) -> Talk {
    let (mut fork, _) = source.fork(at).unwrap();
    let (of, there) = (&source.session, &fork.session);
    let end = at.map_or(of.head, |id| of.tree.find(id));
    let said = |session: &engine::Session, end: Option<Ix>| {
        let mut read: Vec<(NodeId, NodeId, Message)> = Vec::new();
        for ix in session.tree.reader_up(end) {
            let message = Message { id: None, ..Message::clone(session.content(ix).expect("few contents are all in memory")) };
            read.push((session.tree.id(ix), session.tree.shown_id(ix), message));
        }
        read.reverse();
        read
    };
    let (read, again) = (said(of, end), said(there, there.head));
    assert_eq!(read.len(), again.len(), "the fork reads as its source");
    for ((id, shown, message), (new, shown_there, same)) in read.iter().zip(&again) {
        assert_eq!(message, same, "message by message");
        assert!(of.tree.known(new).is_none(), "under fresh ids");
        assert_eq!(there.tree.find(id).map(|ix| there.tree.id(ix)).as_ref(), Some(new), "the old id names it");
        let named = there.tree.find(shown).map(|ix| there.tree.shown_id(ix));
        assert_eq!(named.as_ref(), Some(shown_there), "so does the one under which it was shown");
    }
    if end == of.head {
        assert_eq!(of.tree.epoch(of.head), there.tree.epoch(there.head), "epochs are counted on");
        let texts = |session| {
            engine::prompt(session).unwrap().iter().map(|message| Message { id: None, ..Message::clone(message) }).collect::<Vec<_>>()
        };
        // What waits isn't carried, also when a call reads it already, or a worker was shown it.
        let turn = of.turn.as_ref();
        let by_call = turn.and_then(|turn| turn.call.as_ref()).map(|call| call.arrivals);
        let by_worker = turn.and_then(|turn| turn.decision.as_ref()).map(|decision| decision.arrivals);
        let read = of.arrivals.iter().take(by_call.or(by_worker).unwrap_or(0) as usize);
        let waits: usize = read.map(|arrival| arrival.messages.len()).sum();
        let mut read = texts(of);
        read.truncate(read.len() - waits);
        assert_eq!(read, texts(there), "the model goes on with what it read");
    }
    assert!(there.turn.is_none() && there.queue.is_empty() && there.tree.open_calls().is_empty(), "nothing is going on");
    let view = read.into_iter().filter(|(_, _, message)| message.role != Role::Activity).map(|(_, shown, message)| message.with_id(shown));
    writes_no_node(&mut fork, &view.collect::<Vec<_>>(), ViewOptions::default());
    fork.replays();
    fork
}

fn writes_no_node(fork: &mut Talk, messages: &[Message], options: ViewOptions) {
    for run in [Some(false), None] {
        let asked = Asked { options, run, ..Asked::view(messages.to_vec()) };
        let written = fork.would_write(&asked);
        let again = written.iter().any(|body| matches!(body, Body::TurnStarted(_)));
        let moves = |body: &Body| matches!(body, Body::MessageNew(_)) || (!again && matches!(body, Body::HeadMoved(_)));
        assert!(!written.iter().any(moves), "[{}] writes {written:?}", brief(messages));
        assert!(run.is_none() || written.is_empty(), "nothing is written");
    }
}
