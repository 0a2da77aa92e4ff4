//! A session as one subscriber reads it over AG-UI: joined whole or gone on with after a cursor, then every turn as a run. When the
//! branch changes the whole is shown again, and the events go on after it.

use std::rc::Rc;

use actix_web::web::Data;
use tokio_util::sync::CancellationToken;

use super::super::run::Chunk;
use super::super::{State, events};
use super::asks;
use super::envelope::Envelope;
use super::outbox::{Full, Outbox, Texts};
use super::telling::Telling;
use super::voice::Voice;
use crate::agui::Dialect;
use crate::ids::{SessionId, SessionKey};
use crate::protocol::{Code, Cursor, Refusal};
use crate::runtime::{Joined, SessionEvents, StreamEnd, Told};

/// So many records are looked at first to learn what led to a place; then four times as many.
const LOOK_BACK: u64 = 64;

/// A session that is read as runs.
pub(super) struct Thread {
    state: Data<State>,
    key: SessionKey,
    telling: Telling,
    events: Option<SessionEvents>,
    /// From where they are read.
    cursor: Cursor,
    /// What is told before the events.
    opening: Texts,
    /// Held as long as it is read.
    told: super::voice::Subscribed,
}

impl Thread {
    /// Opens session `key`: whole when `after` is absent, else after that place.
    pub(super) async fn open(
        state: Data<State>,
        key: SessionKey,
        dialect: Dialect,
        after: Option<Cursor>,
        voice: Rc<Voice>,
    ) -> Result<Self, Refusal> {
        // Whether it is there at all, before anything is waited for.
        let first = state.runtime.events(&key, after).await?;
        let (told, last) = voice.subscribe().await;
        match after {
            None => {
                drop(first);
                let (telling, cursor, opening) = join(&state, &key, dialect).await?;
                let events = Some(state.runtime.session_events(&key, cursor, telling.call()).await?);
                Ok(Self { state, key, telling, events, cursor, opening, told })
            }
            Some(after) => {
                // What was told as a run of this socket's own meanwhile isn't told again.
                let last = last.filter(|(last, _)| *last > after);
                let cursor = last.as_ref().map_or(after, |(last, _)| *last);
                drop(first);
                let telling = look_back(&state, &key, dialect, cursor).await?.told_after(cursor);
                let telling = last.map_or(telling.clone(), |(_, turn)| telling.told_to_its_end(turn));
                let events = Some(state.runtime.session_events(&key, cursor, telling.call()).await?);
                let opening = Texts::within(Envelope::of_thread(&key.session));
                Ok(Self { state, key, telling, events, cursor, opening, told })
            }
        }
    }

    /// Whose it is.
    pub(super) fn session(&self) -> &SessionId {
        &self.key.session
    }

    /// From where its events are read.
    pub(super) fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Tells everything; why no more comes, and what is said then.
    pub(super) async fn follow(mut self, outbox: &Outbox, draining: &CancellationToken) -> Result<(Refusal, Texts), Full> {
        self.told.begin();
        let envelope = Envelope::of_thread(&self.key.session);
        loop {
            let mut texts = std::mem::replace(&mut self.opening, Texts::within(envelope.clone()));
            if texts.is_empty() {
                outbox.room().await;
                let next = match &mut self.events {
                    Some(events) => events.next().await,
                    None => Err(StreamEnd::Closed),
                };
                match next {
                    Ok(Told { batch, past: _ }) => {
                        if let Some(moved) = self.telling.take(&batch, &mut texts)
                            && let Err(refusal) = self.show(moved).await
                        {
                            outbox.in_time(texts).await?;
                            return Ok(self.last_words(refusal, Texts::within(envelope)));
                        }
                    }
                    Err(why) => return Ok(self.ended(why, draining, Texts::within(envelope))),
                }
            }
            if !texts.is_empty() {
                outbox.in_time(texts).await?;
            }
        }
    }

    /// The path is another one since `moved`: the whole is shown again, as it is now.
    async fn show(&mut self, moved: Cursor) -> Result<(), Refusal> {
        // A session has so many readers: this is one of them, not two.
        self.events = None;
        let joined = self.state.runtime.join(&self.key).await?;
        // The events tell of the running turn.
        let joined = Joined { running: None, ..joined };
        let until = joined.cursor.seq;
        let (mut seq, mut over) = (moved.seq, Vec::new());
        while seq < until {
            let last = until.min(seq + LOOK_BACK);
            let events = self.state.runtime.told_until(&self.key, last, last - seq).await?;
            self.telling.pass_over(&events, &mut over);
            seq = last;
        }
        self.telling.show(&joined, over, &mut self.opening);
        self.cursor = joined.cursor;
        self.events = Some(self.state.runtime.session_events(&self.key, joined.cursor, self.telling.call()).await?);
        Ok(())
    }

    fn ended(&mut self, why: StreamEnd, draining: &CancellationToken, texts: Texts) -> (Refusal, Texts) {
        self.last_words(events::last_words(why, draining), texts)
    }

    fn last_words(&mut self, refusal: Refusal, mut texts: Texts) -> (Refusal, Texts) {
        if refusal.code == Code::SessionDeleted {
            // There is nothing to go on with.
            self.telling.broken(refusal.code, &refusal.message, &mut texts);
        }
        texts.append(asks::unsubscribed("threadId", &self.key.session, &refusal));
        (refusal, texts)
    }
}

/// The whole conversation, and the place at which it is so.
async fn join(state: &State, key: &SessionKey, dialect: Dialect) -> Result<(Telling, Cursor, Texts), Refusal> {
    let joined = state.runtime.join(key).await?;
    // The events tell of the running turn.
    let joined = Joined { running: None, ..joined };
    let cursor = joined.cursor;
    let mut telling = look_back(state, key, dialect, cursor).await?;
    let mut opening = Texts::within(Envelope::of_thread(&key.session));
    telling.show(&joined, Vec::new(), &mut opening);
    Ok((telling, cursor, opening))
}

/// What led to a place. It is looked at page by page, from further and further back.
async fn look_back(state: &State, key: &SessionKey, dialect: Dialect, place: Cursor) -> Result<Telling, Refusal> {
    let mut limit = LOOK_BACK;
    loop {
        let at_start = limit >= place.seq;
        let mut telling = Telling::new(dialect, key.session.clone()).looking(at_start);
        let mut seq = place.seq.saturating_sub(limit);
        while seq < place.seq {
            let last = place.seq.min(seq + LOOK_BACK);
            telling.look(&state.runtime.told_until(key, last, last - seq).await?);
            seq = last;
        }
        if let Some(telling) = telling.found() {
            return Ok(telling);
        }
        if at_start {
            return Err(Refusal::new(Code::Internal, "what led to this place can't be told"));
        }
        limit = limit.saturating_mul(4);
    }
}
