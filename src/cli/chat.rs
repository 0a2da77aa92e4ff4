//! `headwater chat`: a conversation in the terminal. One loop takes what the person types, what the session tells, and what came of
//! commands; nothing waits for anything else. May not know how any of it is written or shown.

mod act;
mod command;
mod conversation;
mod follow;
mod input;
mod keys;
mod line;
mod paper;
mod screen;
mod show;
mod state;
mod terminal;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::arguments;
use super::client::Client;
use super::error::Error;
use act::Done;
use follow::Heard;
use input::Input;
use keys::Keys;
use line::{Line, Pressed};
use paper::Paper;
use show::Piece;
use state::{Chat, Want};
use terminal::Streams;

/// The exit code of a chat that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// A command that is being carried out.
type Doing = Pin<Box<dyn Future<Output = Result<Done, Error>>>>;

/// Everything that a chat waits for.
struct Sources {
    input: mpsc::Receiver<Input>,
    heard: Option<mpsc::Receiver<Heard>>,
    doing: Option<Doing>,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    resize: Signal,
}

/// Something that one of them brought.
enum Came {
    Input(Option<Input>),
    Heard(Option<Heard>),
    Done(Result<Done, Error>),
    Interrupt,
    Terminate,
    Resize,
}

impl Sources {
    fn new(streams: Streams) -> std::io::Result<Self> {
        Ok(Self {
            input: if streams.are_live() { input::bytes() } else { input::lines() },
            heard: None,
            doing: None,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// What comes next. Input waits while `busy`.
    async fn next(&mut self, busy: bool) -> Came {
        let heard = async {
            match &mut self.heard {
                Some(heard) => heard.recv().await,
                None => std::future::pending().await,
            }
        };
        let done = async {
            match &mut self.doing {
                Some(doing) => doing.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Came::Terminate,
            _ = self.hang_up.recv() => Came::Terminate,
            _ = self.interrupt.recv() => Came::Interrupt,
            _ = self.resize.recv() => Came::Resize,
            done = done => {
                self.doing = None;
                Came::Done(done)
            }
            input = self.input.recv(), if !busy => Came::Input(input),
            heard = heard => Came::Heard(heard),
        }
    }
}

/// Talks until the person leaves, or (in a pipe) until all is said.
pub(super) async fn chat(client: Client, arguments: &arguments::Chat, own: bool) -> Result<ExitCode, Error> {
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |source| Error::File { doing, source }
    };
    let streams = Streams::look();
    let mut chat = Chat::new(client, arguments, streams, own);
    let (opening, heard) = chat.open().await?;
    let mut sources = Sources::new(streams).map_err(failed("listen for signals"))?;
    sources.heard = heard;
    let paper = Paper::new(streams).map_err(failed("set up the terminal"))?;
    let mut desk = Desk { chat, sources, paper, line: Line::default(), keys: Keys::default(), streams };
    let ran = desk.run(opening).await;
    desk.chat.leave().await;
    let Desk { chat, paper, .. } = desk;
    let (code, last) = match ran {
        Ok(code) => (code, chat.farewell()),
        // Nobody reads any more; there is nobody to tell.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(ExitCode::FAILURE),
        Err(error) => return Err(failed("write to the terminal")(error)),
    };
    paper.close(&last).map_err(failed("write to the terminal"))?;
    Ok(code)
}

/// Where a person sits.
struct Desk {
    chat: Chat,
    sources: Sources,
    paper: Paper,
    line: Line,
    keys: Keys,
    streams: Streams,
}

impl Desk {
    async fn run(&mut self, opening: Vec<Piece>) -> std::io::Result<ExitCode> {
        self.chat.own().into_iter().for_each(|text| self.line.remember(&text));
        self.write(&opening)?;
        loop {
            self.start();
            if let Some(code) = self.chat.is_over() {
                return Ok(code);
            }
            let busy = !self.streams.typed && self.chat.is_busy();
            let pieces = match self.sources.next(busy).await {
                Came::Input(input) => match self.input(input)? {
                    Want::Pieces(pieces) => pieces,
                    Want::Leave(code) => return Ok(code),
                },
                Came::Heard(heard) => self.heard(heard),
                Came::Done(done) => {
                    let (pieces, heard) = self.chat.done(done);
                    self.sources.heard = heard.or(self.sources.heard.take());
                    pieces
                }
                Came::Interrupt => match self.interrupt() {
                    Want::Pieces(pieces) => pieces,
                    Want::Leave(code) => return Ok(code),
                },
                Came::Terminate => return Ok(ExitCode::FAILURE),
                Came::Resize => {
                    self.paper.resize();
                    Vec::new()
                }
            };
            self.write(&pieces)?;
        }
    }

    /// Begins the next command, when none is being carried out.
    fn start(&mut self) {
        if self.sources.doing.is_none() {
            self.sources.doing = self.chat.next().map(|doing| Box::pin(doing) as Doing);
        }
    }

    fn write(&mut self, pieces: &[Piece]) -> std::io::Result<()> {
        self.paper.write(pieces, &self.chat.prompt(), &self.line)?;
        if self.chat.is_idle() { self.paper.ask() } else { Ok(()) }
    }

    fn heard(&mut self, heard: Option<Heard>) -> Vec<Piece> {
        let Some(heard) = heard else {
            self.sources.heard = None;
            return Vec::new();
        };
        let mut pieces = self.chat.heard(heard);
        // What is there already is shown in one go.
        while let Some(heard) = self.sources.heard.as_mut().and_then(|heard| heard.try_recv().ok()) {
            pieces.extend(self.chat.heard(heard));
        }
        pieces
    }

    fn input(&mut self, input: Option<Input>) -> std::io::Result<Want> {
        match input {
            Some(Input::Bytes(bytes)) => self.bytes(&bytes),
            Some(Input::Line(line)) => {
                self.paper.typed();
                Ok(self.chat.line(&line, false))
            }
            Some(Input::End(Some(error))) => {
                Ok(Want::Pieces(self.chat.fail(&Error::File { doing: "read standard input".to_owned(), source: error })))
            }
            Some(Input::End(None)) | None => Ok(self.chat.end(self.streams.typed)),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> std::io::Result<Want> {
        let mut pieces = Vec::new();
        for key in self.keys.push(bytes) {
            match self.line.press(key) {
                Pressed::Nothing | Pressed::Interrupt { cleared: true } => self.chat.typed(),
                Pressed::Done(text) => match self.chat.line(&text, true) {
                    Want::Pieces(more) => pieces.extend(more),
                    leave @ Want::Leave(_) => return Ok(leave),
                },
                Pressed::Interrupt { cleared: false } => match self.interrupt() {
                    Want::Pieces(more) => pieces.extend(more),
                    leave @ Want::Leave(_) => return Ok(leave),
                },
                Pressed::Leave => return Ok(Want::Leave(ExitCode::SUCCESS)),
                Pressed::Suspend => self.paper.suspend()?,
                Pressed::Clear => self.paper.clear()?,
            }
        }
        Ok(Want::Pieces(pieces))
    }

    fn interrupt(&mut self) -> Want {
        match self.chat.interrupt() {
            Want::Leave(_) if !self.streams.typed => Want::Leave(ExitCode::from(INTERRUPTED)),
            want => want,
        }
    }
}
