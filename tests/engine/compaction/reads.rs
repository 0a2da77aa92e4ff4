//! What people read, and what the model reads.

use headwater::engine::{self, Effect, Ix, Tree};
use headwater::ids::NodeId;
use headwater::protocol::{LimitReason, Message, NodeKind, Role, Size};

use super::Room;
use super::ledger::most;
use crate::talk::Talk;

impl Room {
    /// The messages that readers see at a node, by id.
    pub fn readers_see(&self, at: Option<Ix>) -> Vec<NodeId> {
        let tree = &self.world.talk.session.tree;
        let mut seen: Vec<NodeId> =
            tree.reader_up(at).filter(|&ix| tree.node(ix).kind == NodeKind::Message).map(|ix| tree.shown_id(ix)).collect();
        seen.reverse();
        seen
    }

    /// Everything that holds after each step.
    pub fn holds(&self) {
        self.people_notice_nothing();
        self.links_lead_back();
        self.counts_right();
        self.arrivals_are_the_same();
        if let Some(Effect::Call { .. }) = self.world.talk.call()
            && self.world.shows_a_reply()
        {
            self.model_reads_its_path();
            self.fits();
            self.arrivals_fit();
        }
    }

    fn people_notice_nothing(&self) {
        let (talk, twin) = (&self.world.talk, &self.world.twin);
        let seen = |talk: &Talk| talk.snapshot().into_iter().filter(|message| message.role != Role::Activity);
        let here = |message: Message| Message { id: message.id.as_ref().map(|id| self.world.here(id)), ..message };
        assert_eq!(
            seen(talk).collect::<Vec<_>>(),
            seen(twin).map(here).collect::<Vec<_>>(),
            "the conversation is the one without compaction"
        );
        let places = |talk: &Talk| {
            let tree = &talk.session.tree;
            let row = |ix: u32| {
                let node = tree.node(ix);
                (node.role, node.kind, node.partial, tree.readings().depth(node.vertex))
            };
            (0..u32::try_from(tree.len()).unwrap()).filter(|&ix| tree.node(ix).shown).map(row).collect::<Vec<_>>()
        };
        assert_eq!(places(talk), places(twin), "readers find the same tree");
        assert_eq!(talk.session.tree.open_calls(), twin.session.tree.open_calls());
        let waiting = |talk: &Talk| talk.session.queue.iter().map(|queued| queued.messages.len()).collect::<Vec<_>>();
        assert_eq!(waiting(talk), waiting(twin), "the same waits");
    }

    /// Each epoch follows the one that it replaced; through all of them everything is reached that was ever said here.
    fn links_lead_back(&self) {
        let tree = &self.world.talk.session.tree;
        let mut reached: Vec<Ix> = Vec::new();
        let mut at = self.world.talk.session.head;
        while let Some(end) = at {
            let path: Vec<Ix> = tree.up(Some(end)).collect();
            let root = *path.last().unwrap();
            let number = tree.epoch(Some(end));
            assert!(path[..path.len() - 1].iter().all(|&ix| tree.node(ix).kind != NodeKind::Epoch), "an epoch is a root");
            reached.extend(path);
            at = tree.base(root);
            assert_eq!(number, at.map_or(0, |base| tree.epoch(Some(base)) + 1), "epochs are counted");
            assert_eq!(at.is_some(), tree.node(root).kind == NodeKind::Epoch);
        }
        let said = tree.reader_up(self.world.talk.session.head).filter(|&ix| tree.node(ix).kind == NodeKind::Message);
        for ix in said {
            assert!(reached.contains(&ix), "{} is reached", tree.id(ix));
        }
    }

    fn counts_right(&self) {
        let session = &self.world.talk.session;
        let Some(head) = session.head else { return };
        let node = session.tree.node(head);
        let besides = if node.reported { Size::ZERO } else { self.besides() };
        assert_eq!((node.load + besides).tokens(), self.counted(), "what a model reads is counted");
    }

    /// The model reads, after a summary of what came before, the end of what it would have read, and nothing else.
    fn model_reads_its_path(&self) {
        let (talk, twin) = (&self.world.talk.session, &self.world.twin.session);
        let tree = &talk.tree;
        // Of reader views that are the same a view lands on the newest, and unshown events may stand there that don't stand elsewhere.
        let told = |tree: &Tree, ix: Ix| tree.node(ix).kind == NodeKind::Message && !(self.head.1 && tree.node(ix).is_event);
        let mut path: Vec<Ix> =
            engine::path(talk).into_iter().filter(|&ix| tree.node(ix).kind == NodeKind::Epoch || told(tree, ix)).collect();
        let whole: Vec<NodeId> = {
            let tree = &twin.tree;
            let messages = engine::path(twin).into_iter().filter(|&ix| told(tree, ix));
            messages.map(|ix| self.world.here(&tree.id(tree.node(ix).original))).collect()
        };
        let epoch = path.first().copied().filter(|&root| tree.node(root).kind == NodeKind::Epoch);
        let mut expected = Vec::new();
        let mut pinned: Vec<Ix> = Vec::new();
        if let Some(epoch) = epoch {
            path.remove(0);
            let pins = path.iter().take_while(|&&ix| tree.reads_as(ix) == tree.reads_as(epoch)).count();
            pinned = path.drain(..pins).collect();
        }
        let original = |ix: Ix| tree.id(tree.node(ix).original);
        let rest: Vec<NodeId> = path.iter().map(|&ix| original(ix)).collect();
        assert!(whole.ends_with(&rest), "what isn't left out is the rest: {rest:?} of {whole:?}");
        let before = &whole[..whole.len() - rest.len()];
        let covered = epoch.map_or(0, |epoch| tree.reader_up(Some(epoch)).filter(|&ix| told(tree, ix)).count());
        let shown = before.iter().filter(|id| tree.find(id).is_some_and(|ix| tree.node(ix).shown)).count();
        assert_eq!(shown, covered, "{before:?} is left out");
        if let Some(epoch) = epoch {
            let summary = talk.content(epoch).unwrap().joined_text();
            if !summary.is_empty() {
                assert_eq!(self.summaries.get(&summary), Some(&self.readers_see(Some(epoch))), "the summary is of what came before");
                expected.push(summary);
            }
            let mut before = before.iter();
            for ix in pinned {
                let id = original(ix);
                assert!(tree.node(ix).role == Role::User && before.any(|seen| *seen == id), "{id} is pinned");
                expected.push(talk.content(ix).unwrap().joined_text());
            }
        }
        let said = |message: &Message| (message.role, message.tool_call_id.clone(), message.joined_text(), message.tool_calls.len());
        let prompt = |session| {
            let mut read = engine::prompt(session).unwrap();
            assert!(!read.is_empty(), "the model reads something");
            read.retain(|message| !self.head.1 || !message.joined_text().starts_with("[Event]"));
            read
        };
        let (read, all) = (prompt(talk), prompt(twin));
        for (message, text) in read.iter().zip(&expected) {
            assert!(message.role == Role::User && message.joined_text().ends_with(text.as_str()));
        }
        let rest: Vec<_> = read[expected.len()..].iter().map(|message| said(message)).collect();
        let all: Vec<_> = all.iter().map(|message| said(message)).collect();
        assert!(all.ends_with(&rest), "{rest:?} isn't the end of {all:?}");
        pairs(&read);
    }

    /// By our count the model reads no more than it may, unless nothing could be done about it.
    fn fits(&self) {
        let session = &self.world.talk.session;
        let call = session.turn.as_ref().and_then(|turn| turn.call.as_ref()).unwrap();
        let holding = || self.options.strategy.iter().filter(|strategy| strategy.background.is_none());
        let limit = holding().filter_map(|strategy| most(strategy, &self.options)).min();
        let Some(limit) = limit else { return };
        if self.counted() > limit && !self.ledger.is_stuck() {
            assert!(self.ledger.was_held(&call.id), "{} tokens are more than {limit}, and nobody made room", self.counted());
        }
        if let Some((epoch, LimitReason::Full, of)) = self.ledger.replaced.last()
            && *of == call.id
        {
            let limit = holding().find_map(|strategy| most(strategy, &self.options)).unwrap_or(limit);
            self.could_not_be_shorter(epoch, limit);
        }
    }

    /// After room was made the model reads no more than the strategy lets pass, unless the summary is long, or what is kept is a
    /// question with the last reply to it and its results.
    fn could_not_be_shorter(&self, epoch: &NodeId, limit: u64) {
        let session = &self.world.talk.session;
        let tree = &session.tree;
        let path = engine::path(session);
        assert_eq!(tree.find(epoch), path.first().copied(), "the model goes on below the epoch");
        let room = Size::from_tokens(limit) - self.besides();
        let replies = path.iter().filter(|&&ix| tree.node(ix).kind == NodeKind::Message && tree.node(ix).role == Role::Assistant).count();
        if self.counted() > limit && tree.node(path[0]).size.characters() <= room.characters() / 8 {
            assert!(replies <= 1, "{} tokens are kept of {limit}, with {replies} replies", self.counted());
        }
    }

    /// What the model reads that writes a summary: all of what it is to stand for, and nothing of what follows.
    pub fn reads_what_it_summarizes(&self) {
        let session = &self.world.talk.session;
        let turn = session.turn.as_ref().unwrap();
        let Some(engine::record::Reads::Summary(summary)) = turn.call.as_ref().map(|call| &call.reads) else { panic!("no summary") };
        let window = self.options.window.map(std::num::NonZero::get);
        let (system, message) = engine::context::request(session, summary, window).unwrap();
        let text = message.joined_text();
        assert!(!system.is_empty() && !text.is_empty(), "there is something to summarize");
        let tree = &session.tree;
        let mut at = 0;
        let mut is_after = false;
        // The same may be said twice.
        let mut before = Vec::new();
        for ix in engine::path(session) {
            let said = session.content(ix).unwrap().joined_text();
            let first = said.split(" and so on").next().unwrap();
            if !is_after {
                before.push(first.to_owned());
            }
            if is_after {
                let label = format!("]\n{first}\n\n");
                assert!(
                    before.iter().any(|said| said == first)
                        || tree.node(ix).kind != NodeKind::Message
                        || tree.node(ix).role == Role::Tool
                        || !text.contains(&label),
                    "{first} isn't summarized"
                );
            } else if tree.node(ix).kind != NodeKind::Custom && !first.is_empty() && !text.contains("are left out]") {
                at += text[at..].find(first).unwrap_or_else(|| panic!("{first} is summarized in its place"));
            }
            is_after |= tree.id(ix) == summary.to;
        }
        assert!(is_after, "what is summarized stands on the path");
    }
}

/// Each result follows its call, each call has one.
fn pairs(read: &[std::sync::Arc<Message>]) {
    let mut open: Vec<_> = Vec::new();
    for message in read {
        if message.role == Role::Tool {
            let at = open.iter().position(|call| Some(*call) == message.tool_call_id.as_ref());
            open.remove(at.expect("a result follows its call"));
            continue;
        }
        assert!(open.is_empty(), "a call has a result");
        open = message.tool_calls.iter().map(|call| &call.id).collect();
    }
    assert!(open.is_empty(), "a call has a result");
}
