//! Follows a session's events through lost connections: what was heard last is where it goes on, so that nothing is heard twice and
//! nothing is missed. May not know what the events are for.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::cli::client::Client;
use crate::cli::error::Error;
use crate::cli::told::Told;
use crate::clock;
use crate::protocol::Code;

/// Events that may wait to be shown. A terminal that stands still holds up the rest, down to the server.
const WAITING_MAX: usize = 256;
/// The pauses between attempts to come back: they double.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What is heard of a session.
#[derive(Debug)]
pub enum Heard {
    /// Something happened.
    Told(Told),
    /// The connection is there.
    Connected,
    /// The connection was lost; it is sought again.
    Lost(Error),
    /// It won't come back.
    Over(Error),
}

/// How a stream ended, when not in order.
struct Ended {
    error: Error,
    /// It won't be another time.
    is_final: bool,
}

/// Whether a session is gone for good with this.
fn is_final(code: Code) -> bool {
    matches!(code, Code::SessionDeleted | Code::SessionNotFound | Code::SessionCorrupt | Code::NewerVersion)
}

/// Listens to `session` from `cursor` on. A lost connection is sought for as long as `patience` allows. Ends when nobody takes what it
/// hears.
pub fn follow(client: Client, session: String, cursor: String, patience: Duration) -> mpsc::Receiver<Heard> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(listen(client, session, cursor, patience, sender));
    receiver
}

async fn listen(client: Client, session: String, mut cursor: String, patience: Duration, heard: mpsc::Sender<Heard>) {
    let mut pause = PAUSE_MIN;
    let mut lost: Option<std::time::Instant> = None;
    loop {
        let ended = match client.events(&session, &cursor).await {
            Ok(mut events) => {
                if heard.send(Heard::Connected).await.is_err() {
                    return;
                }
                lost = None;
                loop {
                    match events.next().await {
                        Ok(Some(next)) => {
                            pause = PAUSE_MIN;
                            cursor = next.cursor.unwrap_or(cursor);
                            if heard.send(Heard::Told(next.told)).await.is_err() {
                                return;
                            }
                        }
                        Ok(None) => break None,
                        // What ends a stream in its middle may be over when it is asked for again.
                        Err(error) => break Some(Ended { is_final: error.code().is_some_and(is_final), error }),
                    }
                }
            }
            Err(error) => Some(Ended { is_final: !error.passes(), error }),
        };
        let is_news = lost.is_none();
        let since = *lost.get_or_insert_with(clock::instant);
        let is_over = clock::instant().duration_since(since) >= patience;
        let (news, is_last) = match ended {
            Some(Ended { error, is_final }) if is_over || is_final => (Some(Heard::Over(error)), true),
            Some(Ended { error, .. }) if is_news => (Some(Heard::Lost(error)), false),
            // It ended in order, or it is still lost.
            Some(_) | None => (None, false),
        };
        if let Some(news) = news
            && (heard.send(news).await.is_err() || is_last)
        {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = heard.closed() => return,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
