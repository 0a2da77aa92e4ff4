//! The steps of scenarios in which Headwater has tool calls carried out.

use headwater::engine::Outcome;
use headwater::protocol::{Action, BadArguments, CarriedOutBy, Content, DecisionRequest, Json, Refusal, ServerTool, ToolInput, Trigger};

use super::Play;

impl Play {
    /// Does a step about tools; whether there is one of that name.
    pub(super) fn carry(&mut self, verb: &str, rest: &[&str]) -> bool {
        let call = || rest[0].into();
        let error = |text: &str, retryable| Outcome::Error { error: text.to_owned(), retryable };
        let written = match verb {
            "tools" => {
                self.talk.equip(rest[0], rest[1..].iter().map(|word| tool(word)).collect());
                return true;
            }
            "execute" => {
                let text = self.talk.execution_request(&call()).map_or("nothing is asked".to_owned(), |request| asked(&request));
                text.lines().for_each(|line| self.line(line));
                return true;
            }
            "carried" => Ok(match rest[1].strip_prefix('!') {
                None => self.talk.carried(&call(), Outcome::Result(Content::Text(rest[1].to_owned()))),
                Some(text) => match text.strip_prefix('?') {
                    Some(text) => self.talk.carried(&call(), error(text, true)),
                    None => self.talk.carried(&call(), error(text, false)),
                },
            }),
            "lost" => Ok(self.talk.lost(&call(), true)),
            "unreached" => Ok(self.talk.lost(&call(), false)),
            "say" => self.talk.answer_call(&call(), rest[1]),
            "later" => Ok(self.talk.wake_execution()),
            _ => return false,
        };
        match written {
            Ok(records) => self.wrote(&records),
            Err(refusal) => self.refuses(&refusal),
        }
        true
    }

    fn refuses(&mut self, refusal: &Refusal) {
        let text = format!("refused {}: {}", refusal.code, refusal.message);
        let text = self.short(&text);
        self.line(&text);
    }

    /// What is to be done about calls.
    pub(super) fn executions(&self) -> String {
        let running = self.talk.executions();
        let mut wants: Vec<String> = running
            .iter()
            .map(|(id, attempt)| if *attempt == 1 { format!("execute {id}") } else { format!("execute {id}, attempt {attempt}") })
            .collect();
        let pauses = self.talk.execution_wakes().into_iter().filter(|(_, id, _)| !running.iter().any(|(runs, _)| runs == id));
        wants.extend(pauses.map(|(at, id, attempt)| format!("{id} waits {} ms after attempt {attempt}", at.saturating_sub(self.talk.now))));
        if wants.is_empty() { String::new() } else { format!(" → {}", wants.join(" · ")) }
    }
}

/// `NAME[:FLAG,…]`: `outside`, `idempotent`, `ask`, `once` (one attempt), `n` (its arguments have an integer `n`).
fn tool(word: &str) -> ServerTool {
    let (name, flags) = word.split_once(':').unwrap_or((word, ""));
    let mut tool = ServerTool::new(name);
    for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
        match flag {
            "outside" => tool.by = CarriedOutBy::Outside,
            "idempotent" => tool.idempotent = true,
            "ask" => tool.bad_arguments = BadArguments::Ask,
            "once" => tool.attempts = 1,
            "n" => {
                let schema = serde_json::json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
                tool.parameters = Some(Json::from_value(&schema).unwrap());
            }
            _ => panic!("unknown flag {flag}"),
        }
    }
    tool
}

/// What a worker is asked about a call, in short.
fn asked(request: &DecisionRequest) -> String {
    let Trigger::ToolExecute { id, name, arguments, input, attempt, key } = &request.trigger else { panic!("it is about a call") };
    assert_eq!(*attempt, request.attempt);
    assert!(request.messages.is_empty(), "a tool needs little");
    let input = match input {
        ToolInput::Valid(json) => format!("valid {}", json.get()),
        ToolInput::Invalid { errors, .. } => format!("invalid: {}", errors.join("; ")),
        ToolInput::Malformed(error) => format!("malformed: {error}"),
    };
    let proposed: Vec<String> = request
        .proposed
        .actions
        .iter()
        .map(|action| match action {
            Action::ToolError { id: Some(id), error, retryable: false } => format!("tool.error {id} {error:?}"),
            other => panic!("{other:?} is proposed"),
        })
        .collect();
    format!("asked tool.execute {id} {name} {arguments:?}, {input}, attempt {attempt}, key {key}\nproposed {}", proposed.join(" · "))
}
