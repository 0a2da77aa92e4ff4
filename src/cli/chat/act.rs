//! What commands do, over the native API: edits and other replies are views, as any front end submits them. May not know the terminal.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::command::{Command, help};
use super::conversation::{Conversation, summary};
use super::show::Piece;
use super::terminal;
use crate::cli::client::Client;
use crate::cli::error::Error;
use crate::cli::tree::{Whole, whole};
use crate::clock;
use crate::draw::in_one_line;
use crate::ids::{NodeId, TurnId};
use crate::protocol::{Accepted, Checkpoint, Code, Forked, HeadAnswer, QueuedTurn, RecordsPage, Role, SessionPage};

/// The agent of a server without configuration.
const DEMO: &str = "demo";
/// The pause before a request is repeated that could not be brought to an end; its turn id makes sure that it is carried out once.
const PAUSE: Duration = Duration::from_secs(1);

/// Whose commands these are. Clones are the same conversation.
#[derive(Clone, Debug)]
pub struct Acts {
    /// The server.
    pub client: Client,
    /// The session.
    pub session: String,
    /// Who answers, when that is known.
    pub agent: Option<String>,
    /// How long a server that is gone is waited for.
    pub patience: Duration,
}

/// What is submitted, under ids that were given before anything was sent.
#[derive(Clone, Debug)]
pub struct Submit {
    /// The turn.
    pub turn_id: TurnId,
    /// The message, when there is a new one.
    pub message_id: NodeId,
    /// Whether it may wait for the running turn.
    pub may_wait: bool,
}

/// What came of a command.
#[derive(Debug)]
pub enum Done {
    /// An input was taken.
    Taken(Box<Accepted>, String),
    /// This is to be shown.
    Shown(Vec<Piece>),
    /// The conversation goes on in another session, whose log ends there.
    Switched(String, u64),
}

/// An id that nobody else has, of this kind.
pub fn fresh_id(kind: &str) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let nonce = clock::stamp().nonce;
    let digits = (0..10).map(|n| char::from(DIGITS[(nonce >> (5 * n)) as usize & 31]));
    format!("{kind}-{}", digits.collect::<String>())
}

impl Acts {
    /// Carries out a command that a person may give at any time.
    pub async fn run(self, command: Command, submit: Submit) -> Result<Done, Error> {
        match command {
            Command::Say(text) | Command::Queue(Some(text)) => self.say(&text, &submit).await,
            Command::Edit(text) => self.edit(&text, &submit).await,
            Command::Regenerate => self.regenerate(&submit).await,
            Command::Branch(None) => Ok(paragraph(self.conversation().await?.branches())),
            Command::Branch(Some(name)) => self.branch(&name, &submit).await,
            Command::Tree => {
                Ok(self.conversation().await?.drawn(terminal::size().0).map_or_else(|| aside("Nothing was said here yet."), paragraph))
            }
            Command::Queue(None) => self.queue().await,
            Command::Cancel => self.cancel().await,
            Command::Label(None) => self.labels().await,
            Command::Label(Some(label)) => self.label(label).await,
            Command::Goto(name) => self.goto(&name).await,
            Command::Fork(name) => self.fork(name).await,
            Command::Help | Command::Quit => Ok(paragraph(help())),
        }
    }

    /// The session's page.
    pub async fn page(&self) -> Result<SessionPage, Error> {
        self.client.get(&["v1", "sessions", &self.session], &[]).await
    }

    /// How many records the session's log has.
    pub async fn end(&self) -> Result<u64, Error> {
        let page: RecordsPage = self.client.get(&["v1", "sessions", &self.session, "records"], &[("limit", "1")]).await?;
        Ok(page.end)
    }

    /// The session's tree. One that isn't there is an empty one.
    pub async fn conversation(&self) -> Result<Conversation, Error> {
        match whole(&self.client, &self.session, false).await {
            Ok(tree) => Ok(Conversation::new(tree)),
            Err(error) if error.code() == Some(Code::SessionNotFound) => Ok(Conversation::new(Whole::default())),
            Err(error) => Err(error),
        }
    }

    /// Stops what runs; whether there was something.
    pub async fn stop(&self) -> Result<bool, Error> {
        #[derive(Deserialize)]
        struct Stopped {
            cancelled: bool,
        }
        let body = json!({ "type": "client.cancel" }).to_string();
        match self.client.post::<Stopped>(&["v1", "sessions", &self.session, "inputs"], body).await {
            Ok(Stopped { cancelled }) => Ok(cancelled),
            Err(error) if error.code() == Some(Code::SessionNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn say(&self, text: &str, submit: &Submit) -> Result<Done, Error> {
        let message = json!({ "id": submit.message_id, "role": "user", "content": text });
        self.submit(submit, json!({ "type": "client.message", "queue": submit.may_wait, "message": message })).await
    }

    async fn edit(&self, given: &str, submit: &Submit) -> Result<Done, Error> {
        let talk = self.conversation().await?;
        let (first, rest) = given.split_once(char::is_whitespace).unwrap_or((given, ""));
        let named = talk.find(first).filter(|_| !rest.trim().is_empty());
        let (node, text) = match named {
            Some(node) => (Some(node), rest.trim_start()),
            None => (talk.last_own(), given),
        };
        let Some(node) = node else { return Ok(aside("There is no message to edit yet.")) };
        if node.message.role != Role::User {
            return Ok(aside(&format!("Only your own messages can be edited; {first} is {}", summary(node))));
        }
        self.view(submit, talk.edited(node, &submit.message_id, text), true).await
    }

    async fn regenerate(&self, submit: &Submit) -> Result<Done, Error> {
        match self.conversation().await?.without_reply() {
            Some(view) => self.view(submit, view, true).await,
            None => Ok(aside("There is nothing to be answered yet.")),
        }
    }

    async fn branch(&self, name: &str, submit: &Submit) -> Result<Done, Error> {
        let talk = self.conversation().await?;
        let Some(node) = talk.find(name) else { return Ok(unknown(name)) };
        self.view(submit, talk.branch(node), false).await?;
        self.here().await
    }

    /// Submits a view, as a front end does.
    async fn view(&self, submit: &Submit, messages: Vec<Value>, run: bool) -> Result<Done, Error> {
        self.submit(submit, json!({ "type": "client.messages", "partial_view": "root", "run": run, "messages": messages })).await
    }

    async fn submit(&self, submit: &Submit, mut input: Value) -> Result<Done, Error> {
        input["turn_id"] = json!(submit.turn_id);
        input["stream"] = json!(false);
        let mut agent = self.agent.clone().unwrap_or_else(|| DEMO.to_owned());
        let began = clock::instant();
        loop {
            input["agent_id"] = json!(agent);
            match self.client.post(&["v1", "sessions", &self.session, "inputs"], input.to_string()).await {
                Ok(accepted) => return Ok(Done::Taken(Box::new(accepted), agent)),
                Err(error) if error.passes() && clock::instant().duration_since(began) < self.patience => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(Error::Refused(refusal)) if refusal.code == Code::UnknownAgent && self.agent.is_none() => {
                    let known = refusal.details.get("agents").and_then(|agents| serde_json::from_value::<Vec<String>>(agents.clone()).ok());
                    match known.unwrap_or_default().as_slice() {
                        [only] if *only != agent => agent.clone_from(only),
                        agents => return Err(Error::Agent { agents: agents.to_vec() }),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn queue(&self) -> Result<Done, Error> {
        let page = self.page().await?;
        if page.queue.is_empty() {
            return Ok(aside("Nothing waits."));
        }
        let text = |turn: &QueuedTurn| {
            let texts: Vec<String> = turn.messages.iter().map(|message| in_one_line(&message.joined_text()).into_owned()).collect();
            format!("{}  {}", turn.position, texts.join(" / "))
        };
        Ok(paragraph(page.queue.iter().map(text).collect::<Vec<_>>().join("\n")))
    }

    async fn cancel(&self) -> Result<Done, Error> {
        Ok(if self.stop().await? { Done::Shown(Vec::new()) } else { aside("There is nothing to stop.") })
    }

    async fn labels(&self) -> Result<Done, Error> {
        let talk = self.conversation().await?;
        let page = self.page().await?;
        if page.checkpoints.is_empty() {
            return Ok(aside("Nothing has a name yet; /label NAME names this place."));
        }
        let line = |checkpoint: &Checkpoint| {
            let node = talk.find(checkpoint.node_id.as_str());
            let what = node.map(|node| format!("{} {}", talk.number(&node.id).unwrap_or_default(), summary(node))).unwrap_or_default();
            format!("{}  {what}", in_one_line(&checkpoint.label))
        };
        Ok(paragraph(page.checkpoints.iter().map(line).collect::<Vec<_>>().join("\n")))
    }

    async fn label(&self, label: String) -> Result<Done, Error> {
        let shown = in_one_line(&label).into_owned();
        self.head(json!({ "label": label })).await?;
        Ok(aside(&format!("This place is {shown:?} now; /goto {shown} comes back to it.")))
    }

    async fn goto(&self, name: &str) -> Result<Done, Error> {
        if name == "0" {
            self.head(json!({ "node_id": null })).await?;
            return Ok(aside("Back at the start: what you say next is a new beginning."));
        }
        let Some(node) = self.conversation().await?.find(name).map(|node| node.id.clone()) else { return Ok(unknown(name)) };
        self.head(json!({ "node_id": node })).await?;
        self.here().await
    }

    async fn head(&self, body: Value) -> Result<HeadAnswer, Error> {
        self.client.post(&["v1", "sessions", &self.session, "head"], body.to_string()).await
    }

    /// Says where the conversation stands.
    async fn here(&self) -> Result<Done, Error> {
        let talk = self.conversation().await?;
        let Some(head) = talk.head() else { return Ok(aside("This is the start.")) };
        Ok(aside(&format!("This is after {} {}", talk.number(&head.id).unwrap_or_default(), summary(head))))
    }

    async fn fork(&self, name: Option<String>) -> Result<Done, Error> {
        let name = name.unwrap_or_else(|| fresh_id("chat"));
        let forked: Forked =
            self.client.post(&["v1", "sessions", &self.session, "fork"], json!({ "session_id": name }).to_string()).await?;
        let session = forked.session_id.as_str().to_owned();
        let end = Self { session: session.clone(), ..self.clone() }.end().await?;
        Ok(Done::Switched(session, end))
    }
}

fn aside(text: &str) -> Done {
    Done::Shown(vec![Piece::Aside(text.to_owned())])
}

fn paragraph(text: String) -> Done {
    Done::Shown(vec![Piece::Paragraph(text)])
}

fn unknown(name: &str) -> Done {
    aside(&format!("Nothing here is called {:?}; /tree shows the numbers.", in_one_line(name)))
}
