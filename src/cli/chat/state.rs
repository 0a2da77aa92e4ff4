//! Where a chat is: what runs, what waits, what was asked for and isn't done. Decides what comes next; may not read, write or draw.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;

use super::act::{Acts, Done, Submit, fresh_id};
use super::command::{Command, parse};
use super::conversation::Conversation;
use super::follow::{Heard, follow};
use super::show::{Piece, Show};
use super::terminal::Streams;
use crate::cli::arguments;
use crate::cli::client::Client;
use crate::cli::error::Error;
use crate::cli::told::{Ended, Told};
use crate::draw::in_one_line;
use crate::ids::{NodeId, TurnId};
use crate::protocol::{Code, Message, Role, SessionPage};

/// Messages of a conversation that are shown when one goes on with it.
const SHOWN_MAX: usize = 4;

/// A server that is gone is waited for so long: a person may start it again.
const PATIENCE: Duration = Duration::from_mins(10);
/// The same where nobody looks.
const PATIENCE_IN_PIPES: Duration = Duration::from_secs(5);
/// A reply must be stopped within so long when the chat ends.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// What is to happen now.
#[derive(Debug)]
pub enum Want {
    /// This is shown.
    Pieces(Vec<Piece>),
    /// The chat ends.
    Leave(ExitCode),
}

/// A chat.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
#[derive(Debug)]
pub struct Chat {
    acts: Acts,
    streams: Streams,
    /// The server ends with the chat.
    own_server: bool,
    show: Show,
    /// Lines that aren't carried out yet, and the ids of what they submit.
    asked: VecDeque<(Command, Submit)>,
    /// One is being carried out, with this turn.
    acting: Option<TurnId>,
    /// The turn that runs.
    running: Option<TurnId>,
    /// It waits for results that another app brings.
    waits: bool,
    /// Own turns that haven't ended.
    own: HashSet<TurnId>,
    /// Whether the session's events are being told.
    followed: bool,
    /// No connection.
    lost: bool,
    /// The last key was Ctrl-C.
    warned: bool,
    /// Somebody said something.
    used: bool,
    /// Earlier messages of the person's.
    earlier: Vec<String>,
    /// The person is about to go.
    leaving: bool,
    /// Ctrl-C ended it.
    left_by_interrupt: bool,
    /// It can't go on.
    over: Option<ExitCode>,
}

impl Chat {
    /// As it was asked for.
    pub fn new(client: Client, arguments: &arguments::Chat, streams: Streams, own_server: bool) -> Self {
        let session = arguments.session.clone().unwrap_or_else(|| fresh_id("chat"));
        let patience = if streams.typed { PATIENCE } else { PATIENCE_IN_PIPES };
        Self {
            acts: Acts { client, session, agent: arguments.agent.clone(), patience },
            streams,
            own_server,
            show: Show::default(),
            asked: VecDeque::new(),
            acting: None,
            running: None,
            waits: false,
            own: HashSet::new(),
            followed: false,
            lost: false,
            warned: false,
            used: false,
            earlier: Vec::new(),
            leaving: false,
            left_by_interrupt: false,
            over: None,
        }
    }

    /// Looks at the session, when there is one already: what to show of it, and what it tells from now on.
    pub async fn open(&mut self) -> Result<(Vec<Piece>, Option<mpsc::Receiver<Heard>>), Error> {
        // Where the log ends now, so that nothing is missed from here on.
        match self.acts.end().await {
            Ok(end) => {
                let (page, talk) = (self.acts.page().await?, self.acts.conversation().await?);
                let opening = self.goes_on(&page, &talk);
                Ok((opening, Some(self.follow(end.to_string()))))
            }
            Err(error) if error.code() == Some(Code::SessionNotFound) => Ok((self.greeting("new session"), None)),
            Err(error) => Err(error),
        }
    }

    fn follow(&mut self, cursor: String) -> mpsc::Receiver<Heard> {
        self.followed = true;
        follow(self.acts.client.clone(), self.acts.session.clone(), cursor, self.acts.patience)
    }

    fn greeting(&self, what: &str) -> Vec<Piece> {
        let Acts { client, session, .. } = &self.acts;
        let server = if self.own_server { "in this terminal".to_owned() } else { format!("at {}", client.address()) };
        let text = format!("({what} {} {server}; /help lists the commands)", in_one_line(session));
        if self.streams.typed { vec![Piece::Aside(text)] } else { Vec::new() }
    }

    /// The end of a conversation that was there before.
    fn goes_on(&mut self, page: &SessionPage, talk: &Conversation) -> Vec<Piece> {
        self.acts.agent.get_or_insert_with(|| page.agent_id.as_str().to_owned());
        self.running = page.running_turn.as_ref().map(|running| running.turn_id.clone());
        self.waits = !page.open_calls.is_empty();
        self.earlier = talk.own().collect();
        if !self.streams.typed {
            return Vec::new();
        }
        let spoken = |message: &&std::sync::Arc<Message>| matches!(message.role, Role::User | Role::Assistant);
        let messages: Vec<_> = page.messages.iter().filter(spoken).collect();
        let mut pieces = self.greeting("session");
        let skipped = messages.len().saturating_sub(SHOWN_MAX);
        if skipped > 0 {
            pieces.push(Piece::Aside(format!("({skipped} messages before)")));
        }
        for message in &messages[skipped..] {
            let text = message.joined_text();
            match message.role {
                Role::User => pieces.push(Piece::Typed(text)),
                Role::Assistant if !text.is_empty() => pieces.push(Piece::Paragraph(text)),
                Role::Assistant | Role::Tool | Role::System | Role::Developer | Role::Reasoning | Role::Activity => {}
            }
        }
        pieces
    }

    /// The person's earlier messages.
    pub fn own(&mut self) -> Vec<String> {
        std::mem::take(&mut self.earlier)
    }

    /// What stands before the line.
    pub fn prompt(&self) -> String {
        let own_running = self.running.as_ref().is_some_and(|turn| self.own.contains(turn));
        let waiting = self.own.len() - usize::from(own_running && !self.waits);
        if self.lost {
            "(no connection) > ".to_owned()
        } else if self.waits {
            "(waits for a tool) > ".to_owned()
        } else if self.running.is_some() && waiting > 0 {
            format!("(replying, {waiting} waiting) > ")
        } else if self.running.is_some() || !self.own.is_empty() {
            "(replying) > ".to_owned()
        } else if self.is_busy() {
            "(wait) > ".to_owned()
        } else {
            "> ".to_owned()
        }
    }

    /// Whether the person is asked for the next line.
    pub fn is_idle(&self) -> bool {
        !self.is_busy() && (self.running.is_none() || self.waits)
    }

    /// Whether the next line must wait.
    pub fn is_busy(&self) -> bool {
        self.acting.is_some() || !self.asked.is_empty() || !self.own.is_empty()
    }

    /// The chat can't go on.
    pub fn is_over(&self) -> Option<ExitCode> {
        let left = self.leaving && self.acting.is_none() && self.asked.is_empty();
        self.over.or(left.then_some(ExitCode::SUCCESS))
    }

    /// Something was typed that is no line yet.
    pub fn typed(&mut self) {
        self.warned = false;
    }

    /// Takes a line. `edited`: it was written on a live terminal, and isn't on the screen any more.
    pub fn line(&mut self, line: &str, edited: bool) -> Want {
        self.warned = false;
        let echo = |edited: bool, text: &str| edited.then(|| Piece::Typed(text.to_owned()));
        match parse(line) {
            Ok(None) => Want::Pieces(Vec::new()),
            Ok(Some(Command::Quit)) => {
                // What was asked for before is done before; replies go on without us.
                self.leaving = true;
                Want::Pieces(echo(edited, line).into_iter().collect())
            }
            Ok(Some(command)) => {
                let submit =
                    Submit { turn_id: TurnId::from(fresh_id("turn")), message_id: NodeId::from(fresh_id("m")), may_wait: !self.waits };
                let says = matches!(command, Command::Say(_) | Command::Queue(Some(_)));
                let waits = says && (self.running.is_some() || self.is_busy());
                if submits(&command) {
                    // What waits is shown when its turn comes.
                    self.show.sent(submit.message_id.clone(), !waits);
                }
                self.asked.push_back((command, submit));
                let said = waits && !edited && self.streams.typed;
                let note = said.then(|| Piece::Aside("(this waits for the reply)".to_owned()));
                Want::Pieces(echo(edited && !waits, line).into_iter().chain(note).collect())
            }
            Err(what) => {
                let mut pieces: Vec<_> = echo(edited, line).into_iter().collect();
                pieces.extend(self.refuse(what));
                Want::Pieces(pieces)
            }
        }
    }

    /// Nothing more will be typed.
    pub fn end(&self, typed: bool) -> Want {
        let own_failed = self.over.unwrap_or(ExitCode::SUCCESS);
        if typed || !self.is_busy() { Want::Leave(own_failed) } else { Want::Pieces(Vec::new()) }
    }

    /// The next thing to do, when nothing is being done.
    pub fn next(&mut self) -> Option<impl Future<Output = Result<Done, Error>> + use<>> {
        let (command, submit) = self.asked.pop_front()?;
        self.acting = Some(submit.turn_id.clone());
        if submits(&command) {
            self.own.insert(submit.turn_id.clone());
        }
        Some(self.acts.clone().run(command, submit))
    }

    /// A command came to its end.
    pub fn done(&mut self, done: Result<Done, Error>) -> (Vec<Piece>, Option<mpsc::Receiver<Heard>>) {
        let acted = self.acting.take();
        let due = matches!(&done, Ok(Done::Taken(accepted, _)) if accepted.reply && acted.as_ref() == Some(&accepted.turn_id));
        if let Some(turn) = acted.filter(|_| !due) {
            self.own.remove(&turn);
        }
        match done {
            Ok(Done::Shown(pieces)) => (pieces, None),
            Ok(Done::Taken(_, agent)) => {
                self.used = true;
                self.acts.agent = Some(agent);
                // A new session is told from its start.
                let heard = (!self.followed).then(|| self.follow("0".to_owned()));
                (Vec::new(), heard)
            }
            Ok(Done::Switched(session, end)) => {
                let text = format!("(this is session {} now; {} stays as it was)", in_one_line(&session), in_one_line(&self.acts.session));
                self.acts.session = session;
                self.show = Show::default();
                self.own.clear();
                (self.running, self.waits) = (None, false);
                let heard = self.follow(end.to_string());
                (vec![Piece::Aside(text)], Some(heard))
            }
            Err(error) => (self.fail(&error), None),
        }
    }

    /// What the session tells.
    pub fn heard(&mut self, heard: Heard) -> Vec<Piece> {
        match heard {
            Heard::Told(told) => self.told(&told),
            Heard::Connected if std::mem::take(&mut self.lost) => vec![Piece::Aside("(connected again)".to_owned())],
            Heard::Connected => Vec::new(),
            Heard::Lost(error) => {
                self.lost = true;
                let why = std::error::Error::source(&error).map_or_else(|| described(&error), ToString::to_string);
                vec![Piece::Alarm(format!("the connection is lost ({why}); trying to come back"))]
            }
            Heard::Over(error) => self.fail(&error),
        }
    }

    fn told(&mut self, told: &Told) -> Vec<Piece> {
        match told {
            Told::Started { turn_id } => {
                // The next Ctrl-C is for this one.
                self.warned = false;
                self.running = Some(turn_id.clone());
                self.waits = false;
            }
            Told::Writing { .. } => self.waits = false,
            Told::Suspended { turn_id } => {
                if self.running.as_ref() == Some(turn_id) {
                    (self.running, self.waits) = (None, false);
                }
            }
            Told::Waiting { turn_id, .. } | Told::Interrupted { turn_id, .. } => {
                self.running = Some(turn_id.clone());
                self.waits = true;
                if self.own.remove(turn_id) && !self.streams.typed {
                    self.over = Some(ExitCode::FAILURE);
                }
            }
            Told::Ended { turn_id, end } => {
                if self.running.as_ref() == Some(turn_id) {
                    (self.running, self.waits) = (None, false);
                }
                let own = self.own.remove(turn_id);
                let well = match end {
                    Ended::Completed => true,
                    Ended::Failed { .. } | Ended::Cancelled { .. } => false,
                };
                if own && !well && !self.streams.typed {
                    self.over = Some(ExitCode::FAILURE);
                }
            }
            Told::Queued { .. }
            | Told::Recovered { .. }
            | Told::Limited
            | Told::Node(_)
            | Told::HeadMoved
            | Told::Failed { .. }
            | Told::Live(_)
            | Told::Whole(_)
            | Told::Other => {}
        }
        self.show.told(told)
    }

    /// Something can't be done. In a pipe that is the end: what follows was meant to follow it.
    pub fn fail(&mut self, error: &Error) -> Vec<Piece> {
        self.refuse(described(error))
    }

    fn refuse(&mut self, what: String) -> Vec<Piece> {
        if !self.streams.typed {
            self.over = Some(ExitCode::FAILURE);
        }
        vec![Piece::Alarm(what)]
    }

    /// Ctrl-C.
    pub fn interrupt(&mut self) -> Want {
        if self.warned || !self.streams.typed {
            self.left_by_interrupt = true;
            return Want::Leave(ExitCode::SUCCESS);
        }
        self.warned = true;
        if self.running.is_some() && !self.lost {
            let submit = Submit { turn_id: TurnId::from(fresh_id("turn")), message_id: NodeId::from(fresh_id("m")), may_wait: false };
            self.asked.push_front((Command::Cancel, submit));
            return Want::Pieces(Vec::new());
        }
        Want::Pieces(vec![Piece::Aside("(Ctrl-C again leaves)".to_owned())])
    }

    /// A reply that nobody waits for any more is stopped, and so is everything when the server ends too; else what is left goes on.
    pub async fn leave(&self) {
        let stops = async {
            // What waits begins when what runs is stopped.
            while matches!(self.acts.stop().await, Ok(true)) && self.own_server {}
        };
        if (self.left_by_interrupt || self.own_server) && !self.is_idle() {
            // The chat ends in any case.
            let _ = tokio::time::timeout(STOP_WITHIN, stops).await;
        }
    }

    /// The last words.
    pub fn farewell(&self) -> Vec<Piece> {
        if self.used && self.streams.typed {
            vec![Piece::Aside(format!("(headwater chat --session {} goes on)", in_one_line(&self.acts.session)))]
        } else {
            Vec::new()
        }
    }
}

/// Whether a turn may come of it.
fn submits(command: &Command) -> bool {
    match command {
        Command::Say(_) | Command::Edit(_) | Command::Regenerate | Command::Queue(Some(_)) => true,
        Command::Branch(_)
        | Command::Tree
        | Command::Cancel
        | Command::Queue(None)
        | Command::Label(_)
        | Command::Goto(_)
        | Command::Fork(_)
        | Command::Help
        | Command::Quit => false,
    }
}

/// An error with what is behind it, in one line.
fn described(error: &Error) -> String {
    if error.code() == Some(Code::TurnAlreadyActive) {
        return "a reply is being written; Ctrl-C or /cancel stops it first".to_owned();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
