//! The reference's tree: nodes in a list, reader views as lists of what was said, everything found by looking at all of it. Every
//! message of a conversation says something of its own, so what it says is its name here; a copy says the same. Written from the
//! rules, without the engine.

use std::collections::BTreeMap;

use headwater::protocol::Role;

/// A message: its name here, and what the rules read of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Its name. Of a result: that of its call.
    pub says: String,
    pub role: Role,
    pub text: String,
    pub calls: Vec<String>,
    pub answers: Option<String>,
}

impl Said {
    pub fn new(role: Role, says: &str) -> Self {
        Self { says: says.to_owned(), role, text: says.to_owned(), calls: Vec::new(), answers: None }
    }

    pub fn result(call: &str, text: &str) -> Self {
        Self { says: result_name(call), text: text.to_owned(), answers: Some(call.to_owned()), ..Self::new(Role::Tool, text) }
    }
}

pub fn result_name(call: &str) -> String {
    format!("result of {call}")
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub said: Said,
    pub parent: Option<usize>,
    pub partial: bool,
    /// The turn that recorded it.
    pub turn: Option<String>,
}

/// A tool call that was made.
#[derive(Clone, Debug)]
pub struct Called {
    pub reply: String,
    pub open: bool,
    pub result: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub nodes: Vec<Node>,
    pub head: Option<usize>,
    pub calls: BTreeMap<String, Called>,
    /// Calls in the order in which they were made.
    pub asked: Vec<String>,
}

/// A view's message, as it is understood.
#[derive(Clone, Debug)]
pub enum Item {
    Known(String),
    /// The result of an open call of this reply.
    Answer(String, Said),
    Passed,
    New(Said),
}

/// What is written below the landing.
#[derive(Clone, Debug)]
pub enum News {
    Result(Said),
    New(Said),
    Copy(String),
}

#[derive(Clone, Debug)]
pub struct Found {
    pub landing: Option<usize>,
    pub news: Vec<News>,
    /// It was read as messages that follow the head.
    pub appended: bool,
}

impl Found {
    pub fn answers(&self) -> Vec<Said> {
        let of = |news: &News| match news {
            News::Result(said) => Some(said.clone()),
            News::New(_) | News::Copy(_) => None,
        };
        self.news.iter().filter_map(of).collect()
    }

    /// Whether that is a new message.
    pub fn writes(&self, says: &str) -> bool {
        self.news.iter().any(|news| matches!(news, News::New(said) if said.says == says))
    }

    /// The others, when all are new messages.
    pub fn said(&self) -> Option<Vec<Said>> {
        let mut said = Vec::new();
        for news in &self.news {
            match news {
                News::New(new) => said.push(new.clone()),
                News::Copy(_) => return None,
                News::Result(_) => {}
            }
        }
        Some(said).filter(|said| !said.is_empty())
    }
}

type Reads<'a> = Vec<&'a str>;

impl Tree {
    /// The way to a node, root first.
    pub fn path(&self, at: Option<usize>) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(at, |&ix| self.nodes[ix].parent).collect();
        path.reverse();
        path
    }

    /// What a reader sees at a node.
    pub fn reads(&self, at: Option<usize>) -> Reads<'_> {
        self.path(at).into_iter().map(|ix| self.nodes[ix].said.says.as_str()).collect()
    }

    pub fn sees(&self, says: &str) -> bool {
        self.reads(self.head).contains(&says)
    }

    pub fn first(&self, says: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.said.says == says)
    }

    pub fn is_above(&self, above: Option<usize>, below: Option<usize>) -> bool {
        match above {
            Some(above) => self.path(below).contains(&above),
            None => below.is_none(),
        }
    }

    pub fn open_calls(&self) -> Vec<String> {
        self.asked.iter().filter(|call| self.calls[*call].open).cloned().collect()
    }

    pub fn add(&mut self, said: Said, parent: Option<usize>, turn: Option<&str>) -> usize {
        if let Some(call) = said.answers.as_ref().and_then(|call| self.calls.get_mut(call))
            && call.result.is_none()
        {
            call.open = false;
            call.result = Some(said.text.clone());
        }
        for call in &said.calls {
            if !self.calls.contains_key(call) {
                self.asked.push(call.clone());
                self.calls.insert(call.clone(), Called { reply: said.says.clone(), open: false, result: None });
            }
        }
        // A copy of what was cut short is cut short too.
        let partial = self.first(&said.says).is_some_and(|ix| self.nodes[ix].partial);
        self.nodes.push(Node { said, parent, partial, turn: turn.map(str::to_owned) });
        self.nodes.len() - 1
    }

    /// A copy of what was said, and before a result its reply, unless they are there: in what is read at `at`.
    pub fn copies(&self, says: &str, at: Option<usize>) -> Vec<Said> {
        let reads = self.reads(at);
        let original = &self.nodes[self.first(says).expect("it was said")].said;
        let reply = original.answers.as_ref().and_then(|call| self.calls.get(call)).map(|call| call.reply.clone());
        let wanted = reply.iter().map(String::as_str).chain([says]).filter(|says| !reads.contains(says));
        wanted.map(|says| self.nodes[self.first(says).expect("it was said")].said.clone()).collect()
    }

    /// Whether the last message there asks for a reply.
    pub fn reply_due_at(&self, at: Option<usize>) -> bool {
        let Some(ix) = at else { return false };
        let said = &self.nodes[ix].said;
        match &said.answers {
            Some(call) => self.completes(call, at),
            None => said.role == Role::User,
        }
    }

    fn completes(&self, call: &str, at: Option<usize>) -> bool {
        let reads = self.reads(at);
        let Some(called) = self.calls.get(call) else { return true };
        self.calls.iter().filter(|(_, other)| other.reply == called.reply).all(|(id, other)| match other.result {
            Some(_) => reads.contains(&result_name(id).as_str()),
            None => !other.open,
        })
    }

    /// Whether only results stand between a node and the head: a turn that waits there still waits.
    pub fn only_results_below(&self, at: &[&str]) -> bool {
        let reads = self.reads(self.head);
        let results = self.path(self.head).into_iter().skip(at.len()).all(|ix| self.nodes[ix].said.role == Role::Tool);
        reads.starts_with(at) && results
    }

    // Reconciling.

    pub fn reconcile(&self, items: &[Item], append_partial: bool) -> Found {
        let all: Vec<Reads<'_>> = (0..self.nodes.len()).map(|ix| self.reads(Some(ix))).collect();
        let head = self.reads(self.head);
        // The head's path first, then the newest.
        let rank = |reads: &Reads<'_>| (head.starts_with(reads), all.iter().position(|other| other == reads));
        let mut fits: Vec<Reads<'_>> = vec![Vec::new()];
        let (mut from, mut matched, mut results) = (0, false, Vec::new());
        for item in items {
            let says = match item {
                Item::Known(says) | Item::Answer(says, _) => says.as_str(),
                Item::Passed => {
                    from += 1;
                    continue;
                }
                Item::New(_) => break,
            };
            let longer = |place: &&Reads<'_>| fits.iter().any(|fit| place.len() > fit.len() && place.starts_with(fit));
            let mut next: Vec<Reads<'_>> = all.iter().filter(|place| place.last() == Some(&says)).filter(longer).cloned().collect();
            if next.is_empty() || fits.len() > 1 {
                next.extend(fits.iter().filter(|fit| fit.contains(&says)).cloned());
            }
            if next.is_empty() {
                break;
            }
            if let Item::Answer(_, said) = item {
                results.push(said.clone());
            }
            next.sort_by_key(|reads| std::cmp::Reverse(rank(reads)));
            next.dedup();
            (fits, matched) = (next, true);
            from += 1;
        }
        let lost = !matched && from < items.len() && !self.nodes.is_empty();
        let answers = items.iter().any(|item| matches!(item, Item::Answer(..)));
        let appended = lost && append_partial;
        let mut at = if appended { head.clone() } else { fits.swap_remove(0) };
        if answers && self.only_results_below(&at) {
            at.clone_from(&head);
        }
        let written = self.written(&items[from..], &at, &mut results);
        let mut answered: Vec<Option<String>> = Vec::new();
        results.retain(|said| {
            let first = !answered.contains(&said.answers);
            answered.push(said.answers.clone());
            first
        });
        let here = appended || (!matched && written.is_empty()) || (answers && at == head);
        let on_path = self.path(self.head).into_iter().rev().find(|&ix| all[ix] == at);
        let twin = on_path.or_else(|| all.iter().rposition(|reads| *reads == at));
        Found {
            landing: if here { self.head } else { twin },
            news: results.into_iter().map(News::Result).chain(written).collect(),
            appended,
        }
    }

    fn written(&self, items: &[Item], at: &[&str], results: &mut Vec<Said>) -> Vec<News> {
        let mut reads: Vec<String> = at.iter().map(|says| (*says).to_owned()).collect();
        let mut news = Vec::new();
        for item in items {
            match item {
                Item::Known(says) => {
                    let original = &self.nodes[self.first(says).expect("it was said")].said;
                    if reads.contains(says) {
                        continue;
                    }
                    let reply = original.answers.as_ref().and_then(|call| self.calls.get(call)).map(|call| call.reply.clone());
                    for says in reply.into_iter().chain([says.clone()]) {
                        if !reads.contains(&says) {
                            reads.push(says.clone());
                            news.push(News::Copy(says));
                        }
                    }
                }
                Item::Answer(reply, said) if at.contains(&reply.as_str()) => results.push(said.clone()),
                Item::Answer(..) | Item::Passed => {}
                Item::New(said) => news.push(News::New(said.clone())),
            }
        }
        news
    }
}
