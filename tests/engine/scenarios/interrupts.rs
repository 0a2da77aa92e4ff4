//! The steps of scenarios in which a turn pauses: `resume FLAG… ok:ID[:JSON]… no:ID… [with MESSAGE…]`, with the flags of submits.

use headwater::protocol::{Accepted, Input, InputBody, Resume, ResumeStatus};

use super::Play;

impl Play {
    /// Does a step of somebody who answers; whether it is one.
    pub(super) fn answers(&mut self, verb: &str, rest: &[&str]) -> bool {
        match verb {
            "resume" => self.resume(rest),
            "interrupts" => {
                let session = &self.talk.session;
                let open: Vec<&str> = session.open_interrupts().iter().map(|open| open.id.as_str()).collect();
                let suspended = session.suspended().iter().map(|one| {
                    let open: Vec<&str> = one.turn.interrupts.iter().map(|open| open.id.as_str()).collect();
                    format!(" · {} [{}]", one.turn.id, open.join(" "))
                });
                let text = format!("open [{}]{}", open.join(" "), suspended.collect::<String>());
                let text = self.short(&text);
                self.line(&text);
            }
            _ => return false,
        }
        true
    }

    fn resume(&mut self, rest: &[&str]) {
        let (answers, messages) = rest.split_at(rest.iter().position(|word| *word == "with").unwrap_or(rest.len()));
        let is_flag = |word: &&&str| word.starts_with('+');
        let flags: Vec<&str> = answers.iter().filter(is_flag).copied().collect();
        let resumes: Vec<Resume> = answers.iter().filter(|word| !is_flag(word)).map(|word| answer(word)).collect();
        let mut asked = self.asked(&flags);
        let view = messages.split_first().map(|(_, messages)| (self.asked(messages).messages, asked.options));
        asked.messages = vec![headwater::protocol::Message::empty(headwater::protocol::Role::User)];
        let input = Input { body: InputBody::Resume { interrupts: resumes, view: view.clone() }, ..asked.input() };
        let seq = self.talk.session.seq;
        match self.talk.submit_input(input) {
            Err(refusal) => {
                assert_eq!(self.talk.session.seq, seq, "a refusal writes nothing");
                self.refused(&refusal);
            }
            Ok((records, accepted)) => {
                self.names_of(&records);
                let messages = view.map_or(0, |(messages, _)| messages.len());
                self.accepted(&Accepted { new_from: accepted.new_from.filter(|&from| from < messages), ..accepted }, messages);
                self.wrote(&records);
            }
        }
    }
}

/// `ok:ID`, `ok:ID:JSON` (with `'` for quotes), `no:ID`.
pub fn answer(word: &str) -> Resume {
    let mut parts = word.splitn(3, ':');
    let (how, id) = parts.next().zip(parts.next()).expect("ok:ID or no:ID");
    let status = if how == "ok" { ResumeStatus::Resolved } else { ResumeStatus::Cancelled };
    Resume {
        interrupt_id: id.into(),
        status,
        payload: parts.next().map(|json| serde_json::from_str(&json.replace('\'', "\"")).expect("JSON")),
    }
}
