//! Summaries that are written while turns go on, as tests drive them; and what a crash at any record of a job's life leaves.

use headwater::engine::context;
use headwater::engine::record::Record;
use headwater::engine::{self, Context, Effect, Finished, Session};
use headwater::ids::Stamp;
use headwater::protocol::{CallError, CallErrorKind, Finish, Message, Role};

use crate::talk::{Asked, Kind, Talk};

impl Talk {
    /// What is wanted for the job.
    pub fn job_wants(&self) -> Vec<Effect> {
        let Some(job) = &self.session.job else { return Vec::new() };
        let is_its = |effect: &Effect| match effect {
            Effect::Job { id, .. } | Effect::Wake { id, .. } => *id == job.id,
            Effect::Call { .. }
            | Effect::Room { .. }
            | Effect::Ask { .. }
            | Effect::WakeDecision { .. }
            | Effect::Execute { .. }
            | Effect::WakeExecution { .. } => false,
        };
        engine::wanted(&self.session).into_iter().filter(is_its).collect()
    }

    /// Begins to have a summary written, when one is due.
    pub fn begin_job(&mut self) -> Vec<Record> {
        let context = self.context();
        let due = context::is_job_due(&self.session, &self.agents);
        let records = context::begin_job(&self.session, &context);
        assert!(due || records.is_empty(), "what isn't due isn't begun");
        self.take(&records);
        records
    }

    fn job_ends(&mut self, attempt: Option<u32>, outcome: Result<Finished, CallError>) -> Vec<Record> {
        let Some(job) = self.session.job.clone() else { return Vec::new() };
        let context = self.context();
        let records = context::job_finished(&self.session, &job.id, attempt.unwrap_or(job.attempt), outcome, &context);
        self.take(&records);
        records
    }

    /// An attempt of the job ends with a summary: the one that runs, or an earlier one.
    pub fn job_says(&mut self, text: &str, attempt: Option<u32>) -> Vec<Record> {
        self.job_ends(attempt, Ok(Finished::of_model(Message::text(Role::Assistant, text), Finish::Stop, None)))
    }

    pub fn job_fails(&mut self, kind: CallErrorKind, attempt: Option<u32>) -> Vec<Record> {
        self.job_ends(attempt, Err(CallError::new(kind, "the model failed")))
    }

    /// Waits for what the job waits for: the end of a pause, or its deadline.
    pub fn job_wakes(&mut self) -> Vec<Record> {
        let wake = self
            .job_wants()
            .into_iter()
            .find_map(|effect| if let Effect::Wake { at, id, attempt } = effect { Some((at, id, attempt)) } else { None });
        let Some((at, id, attempt)) = wake else { return Vec::new() };
        let early = Context { stamp: Stamp { now: at - 1, nonce: 0 }, ..self.context() };
        assert!(engine::wake(&self.session, &id, attempt, &early).is_empty(), "it isn't time");
        self.now = self.now.max(at);
        let context = self.context();
        let records = engine::wake(&self.session, &id, attempt, &context);
        self.take(&records);
        records
    }
}

#[test]
fn a_crash_at_any_record_of_a_jobs_life_loses_nothing() {
    let mut talk = Talk::default();
    let options = r#"{"strategy":[{"use":"summarize","over_tokens":1000,"keep_turns":1,"background":true}]}"#;
    talk.configure("bot", None, &serde_json::from_str(options).unwrap());
    let say = |talk: &mut Talk, id: &str| {
        let message = Message::text(Role::User, id).with_id(id.into());
        talk.submit(&Asked { kind: Kind::Message, ..Asked::view(vec![message]) }).unwrap();
    };
    for id in ["u1", "u2", "u3"] {
        say(&mut talk, id);
        talk.reports = Some(1200);
        talk.finish("an answer", Vec::new());
    }
    say(&mut talk, "u4");
    assert!(!talk.begin_job().is_empty());
    talk.job_fails(CallErrorKind::Cut, None);
    talk.job_wakes();
    talk.job_fails(CallErrorKind::TooLong, None);
    talk.job_wakes();
    talk.job_says("They counted.", None);
    talk.finish("an answer", Vec::new());
    say(&mut talk, "u5");
    talk.finish("an answer", Vec::new());
    assert_eq!((talk.session.tree.epoch(talk.session.head), &talk.session.job), (1, &None));
    let originals = context::originals(&talk.session.tree, talk.session.head);
    assert_eq!(originals.len(), 10);
    assert_eq!(context::links(&talk.session.tree, talk.session.head).len(), 1);
    let context = talk.context();
    for end in 0..=talk.log.len() {
        let mut session = Session::default();
        for stored in &talk.log[..end] {
            session.evolve(Record::decode(stored).unwrap()).unwrap();
        }
        let unfinished = session.job.as_ref().filter(|job| job.text.is_none()).map(|job| job.id.clone());
        let goes_on = |session: &Session| {
            let is_its =
                |effect: &Effect| matches!(effect, Effect::Job { id, .. } | Effect::Wake { id, .. } if Some(id) == unfinished.as_ref());
            engine::wanted(session).iter().any(is_its)
        };
        assert_eq!(goes_on(&session), unfinished.is_some(), "after {end} records");
        for record in engine::recover(&session, &context) {
            session.evolve(record).unwrap();
        }
        assert_eq!(goes_on(&session), unfinished.is_some(), "after {end} records and a crash");
    }
}
