//! `/v1/ws`: what the native API offers over one socket, several sessions at once. Each frame that asks something is answered by an
//! ack or an error; a refusal never ends the socket. May not know sockets.

use actix_web::web::Data;

use super::super::State;
use super::super::caller::Caller;
use super::asks;
use super::desk::Desk;
use super::done::Handled;
use super::outbox::Outbox;
use super::source::{Events, Source};
use crate::ids::SessionId;
use crate::protocol::native::{Ask, SocketFrame};
use crate::protocol::{Cursor, Refusal};

/// A socket's native talk.
pub(super) struct Native {
    desk: Desk,
}

impl Native {
    /// With whoever `caller` is.
    pub(super) fn new(state: Data<State>, caller: Caller, outbox: Outbox) -> Self {
        Self { desk: Desk::new(state, caller, outbox, Refusal::clone) }
    }

    /// Whether nothing is left to be told.
    pub(super) fn is_over(&self) -> bool {
        self.desk.is_over()
    }

    /// The socket goes away.
    pub(super) fn leave(&mut self) {
        self.desk.leave();
    }

    /// Waits for something to be answered or told.
    pub(super) async fn go_on(&mut self) -> Handled {
        self.desk.go_on().await
    }

    /// A text frame came.
    pub(super) fn text(&mut self, text: &str) -> Handled {
        let SocketFrame { reference, ask } = match SocketFrame::decode(text, &self.desk.state.limits()) {
            Ok(frame) => frame,
            Err(refused) => return self.desk.refuse(refused.reference.as_deref(), &refused.refusal),
        };
        match ask {
            Ask::Ping => Ok(self.desk.outbox.texts(asks::pong(reference.as_deref()))?),
            Ask::Unsubscribe { session } => self.desk.unsubscribe(reference.as_deref(), &session),
            Ask::Subscribe { session, after } => self.subscribe(reference, session, after),
            ask @ (Ask::Input { .. } | Ask::Head { .. } | Ask::Cancel { .. } | Ask::Update { .. } | Ask::Fork { .. }) => {
                self.desk.ask(reference, ask)
            }
        }
    }

    fn subscribe(&mut self, reference: Option<String>, session: SessionId, after: Option<Cursor>) -> Handled {
        let (state, key) = (self.desk.state.clone(), self.desk.caller.key(session.clone()));
        self.desk.subscribe(reference, session, async move {
            let events = state.runtime.events(&key, after).await?;
            Ok(Source::Events(Box::new(Events::new(key.session, events))))
        })
    }
}
