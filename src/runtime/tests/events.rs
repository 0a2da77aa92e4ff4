//! A session's events: from any place on, in order, once.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::engine::Record;
use crate::engine::record::{Body, CallStarted, MessageNew, SessionCreated};
use crate::ids::NodeId;
use crate::protocol::{Content, PartKind, Tool};

/// Everything that is there to be told.
async fn all(stream: &mut EventStream) -> Vec<Event> {
    let mut events = Vec::new();
    while let Ok(next) = tokio::time::timeout(Duration::from_millis(1), stream.next()).await {
        let next = next.unwrap();
        assert!(!next.events.is_empty());
        events.extend_from_slice(&next.events);
    }
    events
}

async fn end(stream: &mut EventStream) -> StreamEnd {
    loop {
        if let Err(end) = stream.next().await {
            return end;
        }
    }
}

/// A runtime with many readers, each of which may fall `batches` behind.
fn bench(batches: usize) -> Bench {
    let limits = LIMITS.replace("readers_max = 4", "readers_max = 1000").replace("batches_max = 64", &format!("batches_max = {batches}"));
    let mut bench = Bench::new();
    bench.runtime = made(&bench.model, bench.store.clone(), &limits);
    bench
}

/// What happens in a session.
#[derive(Clone, Debug)]
enum Act {
    Submit { on_busy: OnBusy, tools: bool },
    Text(String),
    Reason(String),
    Call,
    Argue(u32, String),
    Finish,
    Fail,
    Cancel,
    Rename,
    Move,
}

fn act() -> impl Strategy<Value = Act> {
    let submit = (prop_oneof![Just(OnBusy::Queue), Just(OnBusy::Merge), Just(OnBusy::Steer), Just(OnBusy::Cancel)], any::<bool>());
    prop_oneof![
        3 => submit.prop_map(|(on_busy, tools)| Act::Submit { on_busy, tools }),
        5 => "[aé🦀]{1,4}".prop_map(Act::Text),
        3 => "[bü🦀]{1,4}".prop_map(Act::Reason),
        2 => Just(Act::Call),
        2 => (0..3_u32, "[{}c🦀]{1,4}").prop_map(|(index, delta)| Act::Argue(index, delta)),
        2 => Just(Act::Finish),
        1 => Just(Act::Fail),
        1 => Just(Act::Cancel),
        1 => Just(Act::Rename),
        1 => Just(Act::Move),
    ]
}

/// Plays acts.
struct Play {
    bench: Bench,
    model: Option<mpsc::UnboundedSender<Piece>>,
    calls: u32,
    made: u32,
}

impl Play {
    fn send(&self, piece: Piece) {
        if let Some(model) = &self.model {
            drop(model.send(piece));
        }
    }

    async fn act(&mut self, act: &Act) {
        self.made += 1;
        let n = self.made;
        let runtime = &self.bench.runtime;
        match act {
            Act::Submit { on_busy, tools } => {
                let message = Message::text(Role::User, "says something").with_id(format!("u{n}").into());
                let look = Tool { name: "look".to_owned(), description: String::new(), parameters: None, metadata: None };
                let client = Client { tools: tools.then(|| vec![look]), ..Client::default() };
                let body = InputBody::Append { messages: vec![message] };
                drop(runtime.submit(&key(), Input { on_busy: *on_busy, body, client, ..input(&format!("t{n}"), &[]) }).await);
            }
            Act::Text(text) => self.send(says(text)),
            Act::Reason(text) => self.send(Ok(Chunk::Reasoning(text.clone()))),
            Act::Call => {
                let call = Chunk::ToolCall { index: self.calls, id: Some(format!("c{n}").into()), name: "look".to_owned() };
                self.calls += 1;
                self.send(Ok(call));
            }
            Act::Argue(index, delta) => self.send(Ok(Chunk::ToolArguments { index: *index, delta: delta.clone() })),
            Act::Finish => self.send(Ok(Chunk::Finished(Finish::Stop))),
            Act::Fail => self.send(Err(CallError::new(CallErrorKind::Cut, "cut"))),
            Act::Cancel => drop(runtime.cancel(&key(), None).await),
            Act::Rename => drop(runtime.update(&key(), SessionUpdate { title: Some(Some(format!("title {n}"))), archived: None }).await),
            Act::Move => {
                let asked = HeadMove { to: HeadTo::Node(n.is_multiple_of(2).then(|| "u0".into())), label: None };
                drop(runtime.move_head(&key(), asked).await);
            }
        }
        // Longer than the pause before another attempt.
        tokio::time::sleep(Duration::from_secs(2)).await;
        if let Some((_, model)) = self.bench.model.0.lock().unwrap().pop() {
            (self.model, self.calls) = (Some(model), 0);
        }
    }
}

/// A reply in the making, as a client has it: its text, its reasoning, its calls.
type Making = (String, Vec<String>, Vec<(String, String)>);

/// What a client makes of events.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    records: Vec<EventBody>,
    making: Option<(NodeId, Making)>,
    at: Option<Cursor>,
}

impl Seen {
    fn take(&mut self, event: &Event, now: Option<&Snapshot>) {
        if let Some(cursor) = event.cursor {
            assert!(self.at.is_none_or(|at| at <= cursor), "{:?}, then {cursor}", self.at);
            self.at = Some(cursor);
        }
        match &event.body {
            EventBody::Live(live) => self.live(live),
            EventBody::Resync(snapshot) => {
                if let Some(now) = now {
                    assert_eq!(**snapshot, *now, "the whole is as it is now");
                }
                let written = |id: &NodeId| snapshot.messages.iter().find(|message| message.id.as_ref() == Some(id));
                let writing = snapshot.writing.as_ref().map(|writing| writing.reply_id.clone());
                self.making = writing.map(|id| (id.clone(), making(written(&id).unwrap())));
            }
            record => {
                if ends_attempt(record) {
                    self.making = None;
                }
                self.records.push(record.clone());
            }
        }
    }

    fn making(&mut self, reply: &NodeId) -> &mut Making {
        let (id, making) = self.making.get_or_insert_with(|| (reply.clone(), Making::default()));
        assert_eq!(id, reply, "one reply at a time");
        making
    }

    fn live(&mut self, live: &Live) {
        match live {
            Live::TextStarted { reply_id } => assert_eq!(self.making(reply_id).0, "", "once"),
            Live::Text { reply_id, delta } => self.making(reply_id).0.push_str(delta),
            Live::ReasoningStarted { reply_id, index } => {
                let parts = &mut self.making(reply_id).1;
                parts.push(String::new());
                assert_eq!(parts.len(), *index as usize);
            }
            Live::Reasoning { reply_id, index, delta } => {
                let parts = &mut self.making(reply_id).1;
                assert_eq!(parts.len(), *index as usize);
                parts.last_mut().unwrap().push_str(delta);
            }
            Live::ToolCallStarted { reply_id, id, .. } => self.making(reply_id).2.push((id.to_string(), String::new())),
            Live::ToolCallArguments { id, delta } => {
                let calls = &mut self.making.as_mut().unwrap().1.2;
                calls.iter_mut().find(|(call, _)| *call == id.as_str()).unwrap().1.push_str(delta);
            }
            Live::ReasoningEnded { .. } | Live::ReplyEnded { .. } => {}
        }
    }
}

/// The same of a message.
fn making(message: &Message) -> Making {
    let parts = match &message.content {
        Some(Content::Parts(parts)) => parts.clone(),
        _ => Vec::new(),
    };
    let reasoning = parts.iter().filter(|part| part.kind == PartKind::Reasoning).map(|part| part.text.clone().unwrap_or_default());
    let calls = message.tool_calls.iter().map(|call| (call.id.to_string(), call.function.arguments.clone()));
    (message.joined_text(), reasoning.collect(), calls.collect())
}

fn ends_attempt(body: &EventBody) -> bool {
    matches!(body, EventBody::CallFailed { .. } | EventBody::CallVoided { .. } | EventBody::CallCompleted { .. })
}

fn seen(events: &[Event], now: Option<&Snapshot>) -> Seen {
    let mut seen = Seen::default();
    for event in events {
        seen.take(event, now);
    }
    seen
}

/// Reads from every place of `told` on: with what was told until there it is what was told in all.
async fn from_every_place(bench: &Bench, told: &[Event], every: usize) {
    let now = bench.runtime.join(&key()).await.unwrap().snapshot;
    let whole = seen(told, None);
    for (index, event) in told.iter().enumerate().rev().step_by(every) {
        let Some(cursor) = event.cursor else { continue };
        let mut stream = bench.runtime.events(&key(), Some(cursor)).await.unwrap();
        let rest = all(&mut stream).await;
        let mut resumed = seen(&told[..=index], None);
        for event in &rest {
            resumed.take(event, Some(&now));
        }
        assert_eq!(resumed.records, whole.records, "after {cursor}");
        let end = told[index + 1..].iter().find(|event| ends_attempt(&event.body));
        let is_gone = cursor.within.is_some() && end.is_some_and(|end| !matches!(end.body, EventBody::CallCompleted { .. }));
        let wholes = rest.iter().filter(|event| matches!(event.body, EventBody::Resync(_))).count();
        assert_eq!(wholes, usize::from(is_gone), "after {cursor}: the whole comes when pieces are told of what is gone");
        assert_eq!(resumed.making, whole.making, "after {cursor}: {rest:#?}");
        // The same piece by piece.
        let runs =
            told[..=index].iter().rev().find(|event| matches!(event.body, EventBody::CallStarted { .. }) || ends_attempt(&event.body));
        let call = runs.filter(|event| !ends_attempt(&event.body)).and_then(|event| event.cursor).map(|cursor| cursor.seq);
        let mut stream = bench.runtime.session_events(&key(), cursor, call).await.unwrap();
        let mut resumed = seen(&told[..=index], None);
        while let Ok(told) = tokio::time::timeout(Duration::from_millis(1), stream.next()).await {
            told.unwrap().batch.events.iter().for_each(|event| resumed.take(event, None));
        }
        assert_eq!((resumed.records, resumed.making), (whole.records.clone(), whole.making.clone()), "piece by piece after {cursor}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn from_any_place_on_the_rest_comes_once_and_in_order(acts in vec(act(), 1..40), every in 1..7_usize) {
        run(async {
            let mut play = Play { bench: bench(2), model: None, calls: 0, made: 0 };
            let _first = play.bench.add("t0", "u0", OnBusy::Queue).await.unwrap();
            let mut stream = play.bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
            let mut slow = play.bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
            let mut told = all(&mut stream).await;
            let mut late = all(&mut slow).await;
            for (step, act) in acts.iter().enumerate() {
                play.act(act).await;
                told.extend(all(&mut stream).await);
                if step.is_multiple_of(every) {
                    from_every_place(&play.bench, &told, every).await;
                }
            }
            from_every_place(&play.bench, &told, 1).await;
            late.extend(all(&mut slow).await);
            let (told, late) = (seen(&told, None), seen(&late, None));
            assert_eq!((told.records, told.making), (late.records, late.making), "who was too slow is told the same");
        });
    }
}

#[test]
fn a_place_inside_a_reply_is_gone_on_with_at_that_very_place() {
    run(async {
        let bench = bench(8);
        let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Hé🦀llo")).unwrap();
        model.send(says(" there")).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = bench.runtime.join(&key()).await.unwrap().cursor;
        assert_eq!(now.within, Some((1, 13)), "a mark and twelve characters");
        for (place, rest) in [(0, "Hé🦀llo there"), (1, "Hé🦀llo there"), (3, "🦀llo there"), (4, "llo there"), (12, "e"), (13, "")]
        {
            let after = Cursor { within: Some((1, place)), ..now };
            let mut stream = bench.runtime.events(&key(), Some(after)).await.unwrap();
            let events = all(&mut stream).await;
            assert_eq!(text(&events), rest, "after {after}");
            assert!(events.last().is_none_or(|event| event.cursor == Some(now)));
        }
        let mut stream = bench.runtime.events(&key(), None).await.unwrap();
        model.send(says("!")).unwrap();
        assert_eq!(text(&all(&mut stream).await), "!", "from now on");
    });
}

#[test]
fn records_during_a_call_keep_the_place_in_its_reply() {
    run(async {
        let bench = bench(8);
        let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        let mut stream = bench.runtime.events(&key(), None).await.unwrap();
        model.send(says("Hello")).unwrap();
        all(&mut stream).await;
        bench.runtime.update(&key(), SessionUpdate { title: Some(Some("greetings".to_owned())), archived: None }).await.unwrap();
        let renamed = all(&mut stream).await;
        let [Event { cursor: Some(cursor), body: EventBody::SessionUpdated { .. }, .. }] = renamed.as_slice() else {
            panic!("{renamed:?}")
        };
        assert_eq!(cursor.within, Some((1, 6)));
        model.send(says(" there")).unwrap();
        all(&mut stream).await;
        let mut resumed = bench.runtime.events(&key(), Some(*cursor)).await.unwrap();
        assert_eq!(text(&all(&mut resumed).await), " there");
    });
}

#[test]
fn a_cursor_that_is_ahead_is_refused() {
    run(async {
        let bench = bench(8);
        let missing = bench.runtime.events(&key(), None).await.err().unwrap();
        assert_eq!(missing.code, Code::SessionNotFound);
        let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        model.send(says("Hi")).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let now = bench.runtime.join(&key()).await.unwrap().cursor;
        for ahead in [
            Cursor::after(now.seq + 1),
            Cursor { within: Some((1, 4)), ..now },
            Cursor { within: Some((2, 0)), ..now },
            Cursor::after(u64::MAX),
        ] {
            let refusal = bench.runtime.events(&key(), Some(ahead)).await.err().unwrap();
            assert_eq!(refusal.code, Code::BadRequest, "{ahead}");
            assert!(refusal.message.contains(&ahead.to_string()) && refusal.message.contains(&now.to_string()), "{}", refusal.message);
        }
    });
}

#[test]
fn streams_keep_the_session_in_memory_and_end_with_the_process() {
    run(async {
        let bench = bench(8);
        let submitted = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        bench.model.answers("Hi").await;
        rest(reader(submitted)).await;
        let mut stream = bench.runtime.events(&key(), None).await.unwrap();
        let other = bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(500), stream.next()).await.is_err());
        assert_eq!(*bench.runtime.0.living.borrow(), 1);
        drop(stream);
        tokio::time::sleep(Duration::from_secs(130)).await;
        assert_eq!(*bench.runtime.0.living.borrow(), 1, "one is left that reads nothing yet");
        drop(other);
        tokio::time::sleep(Duration::from_secs(130)).await;
        assert_eq!((*bench.runtime.0.living.borrow(), bench.runtime.0.open_sessions()), (0, 0));
        let mut live = bench.runtime.events(&key(), None).await.unwrap();
        let mut idle = bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
        all(&mut live).await;
        bench.runtime.drain().await;
        assert_eq!(end(&mut live).await, StreamEnd::Closed);
        assert_eq!(end(&mut idle).await, StreamEnd::Closed);
    });
}

#[test]
fn streams_end_with_a_session_that_is_given_up() {
    run(async {
        let bench = bench(8);
        let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let (_, model) = bench.model.asked().await;
        let mut live = bench.runtime.events(&key(), None).await.unwrap();
        let mut idle = bench.runtime.events(&key(), None).await.unwrap();
        all(&mut live).await;
        bench.store.plan([Fault::Full]);
        model.send(says("Hi")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        assert_eq!(end(&mut live).await, StreamEnd::Failed(Code::StoreFull));
        assert_eq!(end(&mut idle).await, StreamEnd::Failed(Code::StoreFull));
    });
}

#[test]
fn a_stream_waits_while_its_session_has_much_to_do() {
    run(async {
        let bench = Bench::new();
        let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let mut stream = bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
        let (_, model) = bench.model.asked().await;
        bench.store.plan([Fault::HangBefore]);
        model.send(says("Hi")).unwrap();
        model.send(Ok(Chunk::Finished(Finish::Stop))).unwrap();
        bench.store.hanging(1).await;
        let asked: Vec<_> = (0..2)
            .map(|_| {
                let runtime = bench.runtime.clone();
                tokio::task::spawn_local(async move { runtime.session(&key()).await.map(drop).map_err(|refusal| refusal.code) })
            })
            .collect();
        assert!(tokio::time::timeout(Duration::from_secs(1), stream.next()).await.is_err());
        bench.store.release();
        for asked in asked {
            assert_eq!(asked.await.unwrap(), Ok(()), "there was room for it");
        }
        let told = all(&mut stream).await;
        assert!(matches!(told.last().unwrap().body, EventBody::TurnCompleted { .. }));
    });
}

#[test]
fn a_session_has_so_many_readers_and_no_more() {
    run(async {
        let bench = Bench::new();
        let _turn = bench.say("t1", &[("u1", Role::User, "hello")]).await.unwrap();
        let mut streams = Vec::new();
        for _ in 0..3 {
            streams.push(bench.runtime.events(&key(), None).await.unwrap());
        }
        assert_eq!(bench.runtime.events(&key(), None).await.err().unwrap().code, Code::TooManyReaders);
        assert_eq!(bench.runtime.join(&key()).await.err().unwrap().code, Code::TooManyReaders);
        streams.pop();
        bench.runtime.events(&key(), None).await.unwrap();
    });
}

#[test]
fn what_only_models_read_is_never_told() {
    run(async {
        let bench = bench(8);
        let node = |id: &str, parent: Option<&str>, said: &str| {
            MessageNew::plain(id.into(), parent.map(Into::into), Message::text(Role::User, said))
        };
        let hidden = MessageNew { hidden: true, call_id: Some("secret call".into()), ..node("n2", Some("n1"), "a secret") };
        let call = |hidden| CallStarted { hidden, ..CallStarted::of_path("t".into(), "c".into(), 1, "r".into()) };
        let bodies = [
            Body::SessionCreated(SessionCreated { agent_id: "bot".into() }),
            Body::MessageNew(Box::new(node("n1", None, "seen"))),
            Body::MessageNew(Box::new(hidden)),
            Body::MessageNew(Box::new(node("n3", Some("n2"), "seen too"))),
        ];
        let records = bodies.into_iter().map(|body| Record { at: 1, body }.encode().into()).collect();
        bench.runtime.import(&key(), records).await.unwrap();
        let mut stream = bench.runtime.events(&key(), Some(Cursor::after(0))).await.unwrap();
        let events = all(&mut stream).await;
        let told = serde_json::to_string(&events).unwrap();
        assert!(told.contains("seen too") && !told.contains("secret"), "{told}");
        assert_eq!(events.iter().map(|event| event.cursor.unwrap().seq).collect::<Vec<_>>(), [1, 2, 3, 4], "its place is no secret");
        let told = |hidden| super::super::told::told(&Record { at: 1, body: Body::CallStarted(call(hidden)) });
        assert!(told(true).is_none() && told(false).is_some());
    });
}

#[test]
fn a_message_and_the_turn_that_answers_it_are_told_together_wherever_a_page_of_the_log_ends() {
    run(async {
        let bench = bench(8);
        for n in 0..24 {
            let (turn, id) = (format!("t{n}"), format!("u{n}"));
            let submitted = match n {
                0 => bench.say(&turn, &[(&id, Role::User, "hello")]).await,
                _ => bench.add(&turn, &id, OnBusy::Refuse).await,
            };
            bench.model.answers("Hi").await;
            rest(reader(submitted.unwrap())).await;
        }
        let end = bench.runtime.events(&key(), None).await.unwrap().cursor();
        let said = |event: &Event| match &event.body {
            EventBody::MessageNew { message: Some(message), shown_id, .. } if message.role == Role::User => shown_id.clone(),
            _ => None,
        };
        let all: Vec<NodeId> = (0..24).map(|n| format!("u{n}").as_str().into()).collect();
        for after in 0..12 {
            let mut events = bench.runtime.session_events(&key(), Cursor::after(after), None).await.unwrap();
            let mut told = Vec::new();
            loop {
                let Told { batch, .. } = events.next().await.unwrap();
                told.extend(batch.events.iter().filter_map(said));
                let last = batch.events.last().unwrap();
                assert_eq!(said(last), None, "after {after}");
                if last.cursor == Some(end) {
                    break;
                }
            }
            assert!(told.len() > 20 && all.ends_with(&told), "after {after}: {told:?}");
        }
    });
}
