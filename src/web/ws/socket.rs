//! One socket: what comes in, liveness, and how it ends. The same for every talk.

use std::time::Duration;

use actix_web::rt::task::JoinHandle;
use actix_web::web::Data;
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseReason, ProtocolError};
use tokio::time::{MissedTickBehavior, interval};
use tracing::info;

use super::super::State;
use super::super::server::Cutter;
use super::close;
use super::done::{Done, Handled};
use super::outbox::{Outbox, Written};
use super::talk::Talk;
use crate::clock;
use crate::runtime::Pace;

/// Pings without an answer after which a peer is dead.
const PINGS_MISSED_MAX: u32 = 2;

/// The close frame is handed to the connection within so long, or the peer doesn't read.
const HANG_UP_WITHIN: Duration = Duration::from_secs(1);

/// One socket.
pub(super) struct Socket {
    state: Data<State>,
    /// What logs call it.
    name: String,
    talk: Talk,
    outbox: Outbox,
    cutter: Option<Cutter>,
    pings_missed: u32,
    pace: Pace,
}

impl Socket {
    /// A socket on which `talk` is spoken.
    pub(super) fn new(state: Data<State>, name: String, talk: Talk, outbox: Outbox, cutter: Option<Cutter>) -> Self {
        let pace = Pace::new(state.options.socket_frames_per_sec, state.options.socket_frames_burst);
        Self { state, name, talk, outbox, cutter, pings_missed: 0, pace }
    }

    /// Serves it to its end.
    pub(super) async fn serve(mut self, mut messages: AggregatedMessageStream, mut writer: JoinHandle<Written>) {
        let opened = clock::instant();
        let done = self.turn_messages(&mut messages, &mut writer).await;
        self.talk.leave();
        let code = match &done {
            Done::Close(Some(reason)) | Done::CloseNow(Some(reason)) => u16::from(reason.code),
            Done::Close(None) | Done::CloseNow(None) => 1005,
            Done::Gone => 1006,
        };
        let is_gone = matches!(done, Done::Gone);
        match done {
            Done::Close(reason) => self.outbox.close(reason),
            Done::CloseNow(reason) => self.outbox.close_now(reason),
            Done::Gone => {
                self.outbox.close_now(None);
                self.cut();
            }
        }
        let written = if writer.is_finished() { None } else { writer.await.ok() };
        if !is_gone {
            self.hang_up(&mut messages).await;
        }
        let duration_ms = clock::instant().duration_since(opened).as_millis();
        info!(socket = self.name, close.code = code, written = ?written, duration_ms, "socket ended");
    }

    async fn turn_messages(&mut self, messages: &mut AggregatedMessageStream, writer: &mut JoinHandle<Written>) -> Done {
        let draining = self.state.draining.clone();
        let mut ticks = interval(self.state.options.ping());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        loop {
            let handled = tokio::select! {
                message = messages.recv() => self.message(message),
                gone_on = self.talk.go_on() => gone_on,
                _ = ticks.tick() => self.tick(),
                _ = &mut *writer => Err(Done::Gone),
                () = draining.cancelled(), if self.talk.is_over() => Err(Done::stopping()),
            };
            if let Err(done) = handled {
                return done;
            }
        }
    }

    /// Nobody is there: whatever waits for the peer is freed at once.
    fn cut(&self) {
        if let Some(cutter) = &self.cutter {
            cutter.cut();
        }
    }

    /// Ends the connection once the close frame is on its way: the library would wait for the peer, which waits for us.
    async fn hang_up(&self, messages: &mut AggregatedMessageStream) {
        // The stream ends when the library has handed everything to the connection. What still comes in is passed over. After a
        // fault it never ends; then the library's own wait is short enough.
        let handed_over = tokio::time::timeout(HANG_UP_WITHIN, async {
            loop {
                match messages.recv().await {
                    None => return true,
                    Some(Ok(_)) => {}
                    Some(Err(_)) => return false,
                }
            }
        });
        if let (Ok(true), Some(cutter)) = (handed_over.await, &self.cutter) {
            cutter.finish();
        }
    }

    fn message(&mut self, message: Option<Result<AggregatedMessage, ProtocolError>>) -> Handled {
        let message = match message {
            None => return Err(Done::Gone),
            Some(Err(error)) => return Err(close::of_error(&error).map_or(Done::Gone, |reason| Done::Close(Some(reason)))),
            Some(Ok(message)) => message,
        };
        self.pings_missed = 0;
        let says = matches!(message, AggregatedMessage::Text(_) | AggregatedMessage::Binary(_));
        if says && self.talk.is_paced() && !self.pace.keeps() {
            return Err(Done::too_fast());
        }
        match message {
            AggregatedMessage::Text(text) => self.talk.text(&text),
            AggregatedMessage::Binary(content) => self.talk.binary(content),
            AggregatedMessage::Ping(content) => Ok(self.outbox.pong(content)?),
            AggregatedMessage::Pong(_) => Ok(()),
            AggregatedMessage::Close(reason) => close(reason.map(|reason| CloseReason { description: None, ..reason })),
        }
    }

    fn tick(&mut self) -> Handled {
        if self.pings_missed >= PINGS_MISSED_MAX {
            // Nobody is there to read a close frame.
            return Err(Done::Gone);
        }
        self.pings_missed += 1;
        Ok(self.outbox.ping()?)
    }
}

fn close(reason: Option<CloseReason>) -> Handled {
    Err(Done::Close(reason))
}
