//! Laws of compaction, with the real strategies. Made-up front ends talk to a session whose agent makes room as it is configured, at
//! random, at once or in the background; beside it runs a twin that gets the same inputs, whose model says the same, and which is never
//! compacted. Messages join turns, things happen, processes are lost. People must not
//! notice, the model must read what it should, and making room must end. `PROPTEST_CASES` and `HEADWATER_LAWS_SEED` run more, and
//! others.

mod beside;
mod counts;
mod landings;
mod ledger;
mod reads;

use std::collections::HashMap;
use std::num::NonZeroU64;

use headwater::engine::context::{ContextOptions, StrategyOptions};
use headwater::engine::record::Reads;
use headwater::engine::{Effect, Finished, Ix};
use headwater::ids::NodeId;
use headwater::protocol::{CallErrorKind, Finish, HeadMove, HeadTo, Message, OnBusy, Role, Usage};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use self::beside::Jobs;
use self::counts::Counts;
use self::ledger::Ledger;
use crate::front_ends::{Held, Others, World};
use crate::talk::{Asked, Kind, Talk};

/// One thing that happens: what, and numbers that it takes as it needs them.
type Step = (u8, [u8; 6]);

/// A strategy in the making: whether it summarizes, when it applies, what it keeps, whether it works in the background.
type Made = (bool, Option<u8>, Option<u8>, Option<u8>, bool);

/// An agent in the making: how much of a window, its strategies, whether it has a system prompt.
type Agent = (Option<u8>, Vec<Made>, bool);

/// The steps that are enough to end any turn, whatever it has come to.
const STEPS_TO_END: usize = 60;

fn agents() -> impl Strategy<Value = Agent> {
    let made = (
        prop::bool::weighted(0.75),
        prop::option::weighted(0.2, any::<u8>()),
        prop::option::weighted(0.8, any::<u8>()),
        any::<Option<u8>>(),
        prop::bool::weighted(0.35),
    );
    (any::<Option<u8>>(), prop::collection::vec(made, 0..4), any::<bool>())
}

#[test]
fn compaction_is_invisible_and_ends() {
    let seed = std::env::var("HEADWATER_LAWS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_130);
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150);
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4000,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let all = (agents(), prop::collection::vec(any::<Step>(), 1..60));
    std::panic::set_hook(Box::new(|_| {}));
    let result = TestRunner::new(config).run(&all, |(agent, steps)| {
        play(&agent, &steps, false);
        Ok(())
    });
    drop(std::panic::take_hook());
    if let Err(failure) = result {
        if let TestError::Fail(_, (agent, steps)) = &failure {
            play(agent, steps, true);
        }
        panic!("{failure}");
    }
}

fn play(agent: &Agent, steps: &[Step], aloud: bool) {
    let mut room = Room::new(agent, aloud);
    for &step in steps {
        room.step(step);
    }
    room.comes_to_an_end();
    landings::are_as_the_rule_says(&room.world.talk.session);
    room.world.talk.replays();
    room.ledger.every_prefix_goes_on(&room.world.talk.log);
}

/// A session that makes room, and what is known of it.
pub struct Room {
    pub world: World,
    pub options: ContextOptions,
    pub system: &'static str,
    pub ledger: Ledger,
    pub counts: Counts,
    pub jobs: Jobs,
    /// Where it was, and whether the head ever went elsewhere than on.
    pub head: (Option<Ix>, bool),
    /// Turns so far.
    begun: usize,
    /// What each summary stands for: what readers see up to there.
    pub summaries: HashMap<String, Vec<NodeId>>,
}

/// The options that an agent was made up with.
fn options((window, strategies, _): &Agent) -> ContextOptions {
    // Windows about as large as the room that is left for the reply, larger by a conversation's size, and far smaller.
    let window = window.map(|n| if n % 4 == 0 { 20 + u64::from(n) } else { 16_010 + u64::from(n) * 3 });
    let strategy = strategies.iter().map(|&(summarizes, idle, over, keep, background)| StrategyOptions {
        r#use: if summarizes { "summarize" } else { "reset" }.to_owned(),
        idle_secs: idle.and_then(|n| NonZeroU64::new(u64::from(n) * 20)),
        over_tokens: over.filter(|_| idle.is_none()).and_then(|n| NonZeroU64::new(u64::from(n))),
        keep_turns: keep.filter(|_| summarizes).map(|n| u32::from(n % 5)),
        background: (background && summarizes && idle.is_none()).then_some(true),
        ..StrategyOptions::default()
    });
    ContextOptions { window: window.and_then(NonZeroU64::new), strategy: strategy.collect() }
}

impl Room {
    fn new(agent: &Agent, aloud: bool) -> Self {
        let options = options(agent);
        let system = if agent.2 { "You help people with whatever they ask of you." } else { "" };
        let mut world = World { aloud, others: Some(Others::default()), ..World::new() };
        world.talk.configure("bot", Some(system), &options);
        if aloud {
            eprintln!("{options:?}");
        }
        Self {
            world,
            options,
            system,
            ledger: Ledger::default(),
            counts: Counts::default(),
            jobs: Jobs::default(),
            head: (None, false),
            begun: 0,
            summaries: HashMap::new(),
        }
    }

    fn step(&mut self, (what, numbers): Step) {
        (self.world.numbers, self.world.taken) = (numbers, 0);
        let on_busy = [OnBusy::Refuse, OnBusy::Refuse, OnBusy::Queue, OnBusy::Merge, OnBusy::Cancel, OnBusy::Steer, OnBusy::Steer];
        self.world.on_busy = on_busy[usize::from(numbers[4] % 7)];
        let seq = self.world.talk.log.len();
        if self.world.aloud {
            eprintln!("step {what} {numbers:?}");
        }
        let session = &self.world.talk.session;
        if !session.queue.is_empty() || !session.arrivals.is_empty() {
            self.world.tabs.iter_mut().for_each(|tab| tab.exact = false);
        }
        match self.world.talk.call() {
            None if self.world.talk.session.turn.is_none() => self.at_rest(what),
            None => self.while_it_waits(what),
            Some(Effect::Room { .. }) => self.while_held(what),
            Some(Effect::Call { .. }) if !self.world.shows_a_reply() => self.while_a_summary_is_written(what),
            Some(Effect::Call { .. }) => self.while_it_replies(what),
            Some(Effect::Wake { .. }) => self.in_a_pause(what),
            Some(Effect::Job { .. }) => unreachable!("a job isn't the turn's"),
            Some(Effect::Ask { .. } | Effect::WakeDecision { .. }) => unreachable!("no agent has a worker here"),
            Some(Effect::Execute { .. } | Effect::WakeExecution { .. }) => unreachable!("no agent has tools here"),
        }
        if numbers[3].is_multiple_of(3) {
            self.job();
        }
        if numbers[5].is_multiple_of(8) {
            self.world.talk.reopen();
        }
        self.follow();
        if self.world.aloud {
            self.tell(seq);
        }
        self.holds();
        let (rests, knows) = (self.world.talk.session.turn.is_none(), self.tab_is_up_to_date());
        if rests && knows {
            self.world.what_is_held_is_known();
        }
        if self.world.chance(8) && (knows || !rests) {
            self.world.forks();
        }
    }

    /// Whether the acting tab holds what readers see: of what waited for a turn it may not have heard.
    fn tab_is_up_to_date(&self) -> bool {
        let list = &self.world.tabs[self.world.acting].list;
        let held: Vec<NodeId> = list.iter().filter_map(|held| held.real.clone()).collect();
        // What has no id yet, waits.
        list.iter().all(|held| held.message.id.is_some()) && held == self.readers_see(self.world.talk.session.head)
    }

    fn acting_tab_reloads(&mut self) {
        if !self.tab_is_up_to_date() {
            let acting = self.world.acting;
            self.world.adopt(acting);
        }
    }

    fn tell(&self, seq: usize) {
        for stored in &self.world.talk.log[seq..] {
            let record = headwater::engine::Record::decode(stored).unwrap();
            eprintln!("    {}", short(&crate::told::told(&record.body)));
        }
        eprintln!("{}", short(&crate::told::raw(&self.world.talk)));
    }

    fn at_rest(&mut self, what: u8) {
        let world = &mut self.world;
        match what % 17 {
            0..=4 => world.send(),
            5 => world.edit(false),
            6 => world.edit(true),
            7 => world.regenerate(),
            8 => world.switch(),
            9 => world.rewind(),
            10 => world.reload(),
            11 => world.edit_under_the_same_id(),
            12 => world.custom(),
            13 => self.append(),
            14 => self.pause(),
            15 => self.event(),
            _ => self.move_head(),
        }
    }

    /// What anyone may do while a turn is there.
    fn meanwhile(&mut self, what: u8) {
        match what % 12 {
            0 => {
                self.world.talk.recover();
            }
            1 => self.world.cancel(),
            2 => self.world.send(),
            3 => self.world.switch(),
            4 => self.world.edit(false),
            5 => self.append(),
            6 => self.move_head(),
            7 => self.world.custom(),
            8 => self.event(),
            _ => self.steer(),
        }
    }

    fn while_it_waits(&mut self, what: u8) {
        self.acting_tab_reloads();
        match what % 8 {
            0..=4 => self.world.answer(),
            5 => self.world.look_again(),
            _ => self.meanwhile(what / 8),
        }
    }

    fn while_held(&mut self, what: u8) {
        match what % 8 {
            0..=5 => drop(self.world.talk.make_room()),
            _ => self.meanwhile(what / 8),
        }
    }

    fn in_a_pause(&mut self, what: u8) {
        match what % 4 {
            0..=2 => drop(self.world.talk.wake()),
            _ => self.meanwhile(what / 4),
        }
    }

    fn while_a_summary_is_written(&mut self, what: u8) {
        self.reads_what_it_summarizes();
        match what % 12 {
            0..=4 => self.summarize(),
            5 => self.refuse(CallErrorKind::TooLong),
            6 => self.refuse(CallErrorKind::Cut),
            7 => self.refuse(CallErrorKind::Refused),
            8 => self.odd_summary(),
            _ => self.meanwhile(what / 12),
        }
    }

    fn while_it_replies(&mut self, what: u8) {
        match what % 16 {
            0..=6 => {
                self.world.talk.reports = self.reports();
                self.world.finish();
            }
            7 | 8 => self.refuse(CallErrorKind::TooLong),
            9 => self.refuse(CallErrorKind::Cut),
            10 => self.refuse(CallErrorKind::Refused),
            11 if self.tab_is_up_to_date() => {
                self.world.on_busy = OnBusy::Refuse;
                self.world.resend();
            }
            12 => self.cut_short(),
            _ => self.meanwhile(what / 16),
        }
    }

    /// What the model's provider reports, if it does: about what we count, more, or far less.
    fn reports(&mut self) -> Option<u64> {
        let counted = self.counted();
        [None, None, Some(counted), Some(counted * 2 + 3), Some(counted / 2)][self.world.number(5)]
    }

    fn summarize(&mut self) {
        let text = self.world.fresh("summary ");
        let text = self.world.long(&text);
        let turn = self.world.talk.session.turn.as_ref().unwrap();
        let Some(Reads::Summary(summary)) = turn.call.as_ref().map(|call| &call.reads) else { panic!("no summary is written") };
        let up_to = self.readers_see(self.world.talk.session.tree.find(&summary.to));
        self.summaries.insert(text.clone(), up_to);
        self.world.talk.finish(&text, Vec::new());
    }

    /// A summary that is empty, calls a tool, or was cut short.
    fn odd_summary(&mut self) {
        let (text, finish) =
            [("", Finish::Stop), ("  ", Finish::Stop), ("cut in the mid", Finish::Length), ("bad", Finish::Filtered)][self.world.number(4)];
        let usage = Some(Usage { input_tokens: Some(7), ..Usage::default() });
        let turn = self.world.talk.session.turn.as_ref().unwrap();
        if let Some(Reads::Summary(summary)) = turn.call.as_ref().map(|call| &call.reads) {
            let up_to = self.readers_see(self.world.talk.session.tree.find(&summary.to));
            self.summaries.insert(text.to_owned(), up_to);
        }
        self.world.talk.ended(Ok(Finished::of_model(Message::text(Role::Assistant, text), finish, usage)));
    }

    /// The call fails. The twin's goes on, unless the turn has ended.
    fn refuse(&mut self, kind: CallErrorKind) {
        self.world.abandoned.extend(self.world.shown_reply());
        self.world.talk.fail(kind, None);
    }

    /// A filter stops the reply in the middle, or it is cut short by its own limit.
    fn cut_short(&mut self) {
        let finish = [Finish::Filtered, Finish::Length][self.world.number(2)];
        let text = self.world.fresh("half of ");
        let reply = self.world.talk.reply_id().unwrap();
        self.world.talk.reports = self.reports();
        let usage = self.world.talk.reports.take().map(|tokens| Usage { input_tokens: Some(tokens), ..Usage::default() });
        self.world.both(|talk| {
            let message = Message::text(Role::Assistant, text.as_str());
            let is_real = !talk.agents.is_empty();
            talk.ended(Ok(Finished::of_model(message, finish, usage.clone().filter(|_| is_real))))
        });
        self.world.abandoned.clear();
        let (message, acting) = (Message::text(Role::Assistant, text), self.world.acting);
        self.world.tabs[acting].list.push(Held { message: message.with_id(reply.clone()), real: Some(reply) });
    }

    /// Nothing happens for a while.
    fn pause(&mut self) {
        let long = self.world.number(256) as u64 * 30_000;
        self.world.both(|talk| talk.now += long);
    }

    /// Messages that follow the head: of a program's, with replies from elsewhere.
    fn append(&mut self) {
        let world = &mut self.world;
        let (one, other) = (world.fresh("u").as_str().into(), world.fresh("import").as_str().into());
        let (said, imported) = (world.fresh("appended "), world.fresh("imported "));
        let (said, imported) = (world.long(&said), world.long(&imported));
        let user = Message::text(Role::User, said).with_id(one);
        let reply = Message::text(Role::Assistant, imported).with_id(other);
        let messages = [vec![user.clone()], vec![reply.clone(), user.clone()], vec![user, reply]][world.number(3)].clone();
        let asked = Asked { kind: Kind::Append, messages, on_busy: world.on_busy, ..Asked::default() }.with_tools(&["pick"]);
        world.both_take(&asked);
    }

    /// A message joins the turn that is there.
    fn steer(&mut self) {
        self.world.on_busy = OnBusy::Steer;
        if self.world.chance(3) {
            return self.world.send();
        }
        let messages = vec![self.world.user().message];
        let asked = Asked { kind: Kind::Message, messages, on_busy: OnBusy::Steer, ..Asked::default() }.with_tools(&["pick"]);
        self.world.both_take(&asked);
    }

    /// The head goes to any node that readers see; before a compaction that gives the whole conversation back.
    fn move_head(&mut self) {
        let world = &mut self.world;
        let (_, nodes) = crate::talk::listed(&world.talk.session);
        let Some(to) = nodes.get(world.number(nodes.len())).map(|node| node.id.clone()) else { return };
        let there = world.there(&to);
        if world.talk.session.turn.is_some() && world.twin.head_id() == Some(there.clone()) {
            // After a compaction the node itself is elsewhere than the head, and the turn would be left; the twin's goes on.
            return;
        }
        world.talk.move_head(&HeadMove { to: HeadTo::Node(Some(to)), label: None }).unwrap();
        world.twin.move_head(&HeadMove { to: HeadTo::Node(Some(there)), label: None }).unwrap();
        world.abandoned.clear();
        let acting = world.acting;
        world.adopt(acting);
    }

    /// The twin comes to where the session is: what ended the turn here ends it there.
    fn follow(&mut self) {
        let begun = |talk: &Talk| talk.log.iter().filter(|stored| is_turn(stored)).count();
        let world = &mut self.world;
        for _ in 0..8 {
            let same = begun(&world.talk) == begun(&world.twin) && world.talk.session.turn.is_some() == world.twin.session.turn.is_some();
            if same {
                break;
            }
            world.twin.fail(CallErrorKind::Refused, None);
        }
        world.learn();
        if begun(&world.talk) != self.begun {
            // What an earlier turn's attempts were called isn't this turn's reply.
            self.begun = begun(&world.talk);
            world.abandoned.clear();
        }
        if world.talk.session.turn.is_none() {
            world.reply_is_over();
        }
        self.twin_reads_the_same();
        let (tree, head) = (&self.world.talk.session.tree, self.world.talk.session.head);
        let goes_on = tree.readings().extends(tree.vertex(head), tree.vertex(self.head.0));
        self.head = (head, self.head.1 || !goes_on);
        self.ledger.take(&self.world.talk, &self.options, &mut self.counts, &mut self.jobs);
        self.jobs.same(&self.world.talk.session);
    }

    /// Whatever it has come to, a few steps end the turn, and those that wait for it.
    fn comes_to_an_end(&mut self) {
        for _ in 0..STEPS_TO_END {
            match self.world.talk.call() {
                None if self.world.talk.session.turn.is_none() => return,
                None => {
                    self.acting_tab_reloads();
                    self.world.answer();
                }
                Some(Effect::Room { .. }) => drop(self.world.talk.make_room()),
                Some(Effect::Wake { .. }) => drop(self.world.talk.wake()),
                Some(Effect::Job { .. }) => unreachable!("a job isn't the turn's"),
                Some(Effect::Call { .. }) if self.world.shows_a_reply() => {
                    self.world.numbers = [1; 6];
                    self.world.finish();
                }
                Some(Effect::Call { .. }) => self.summarize(),
                Some(Effect::Ask { .. } | Effect::WakeDecision { .. }) => unreachable!("no agent has a worker here"),
                Some(Effect::Execute { .. } | Effect::WakeExecution { .. }) => unreachable!("no agent has tools here"),
            }
            self.follow();
            self.holds();
        }
        panic!("the turn doesn't end");
    }
}

fn is_turn(stored: &[u8]) -> bool {
    matches!(headwater::engine::Record::decode(stored).unwrap().body, headwater::engine::record::Body::TurnStarted(_))
}

/// Without the zeros of the ids that the engine made.
fn short(text: &str) -> String {
    let mut out = String::new();
    for (n, part) in text.split("hw_").enumerate() {
        out += if n == 0 { part } else { part.trim_start_matches('0') };
    }
    out
}
