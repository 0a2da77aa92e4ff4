//! The steps of scenarios in which an agent's worker decides.

use headwater::ids::{DecisionId, NodeId};
use headwater::protocol::{Action, Code, DecisionAnswer, DecisionRequest, Message, Refusal, Trigger, Usage};

use super::Play;

impl Play {
    /// Does a step of a worker's; whether there is one of that name.
    pub(super) fn decide(&mut self, verb: &str, rest: &[&str]) -> bool {
        let written = match verb {
            "worker" => {
                match rest.get(1) {
                    None => self.talk.hire(rest[0]),
                    Some(triggers) => {
                        let triggers = triggers.split(',').map(|name| serde_json::from_value(name.into()).expect("a trigger")).collect();
                        self.talk.hire_for(rest[0], triggers);
                    }
                }
                return true;
            }
            "unhire" => {
                self.talk.dismiss(rest[0]);
                return true;
            }
            "asked" => {
                let request = self.talk.request();
                let text = self.short(&asked(&request));
                text.lines().for_each(|line| self.line(line));
                return true;
            }
            "answer" => {
                let (id, json) = (self.open(), self.filled(rest[0]));
                self.talk.answer_json(&id, &json)
            }
            "accept" => {
                let request = self.talk.request();
                self.talk.answer(&request.decision_id, &request.proposed)
            }
            "repeat" => {
                let id = self.talk.session.answered.back().expect("a decision was answered").clone();
                self.talk.answer(&id, &DecisionAnswer::default())
            }
            "remember" => {
                self.remembered = Some(self.open());
                return true;
            }
            "late" => {
                let id = self.remembered.clone().expect("a decision is remembered");
                self.talk.answer(&id, &DecisionAnswer::from(vec![Action::Done]))
            }
            "unanswered" => Ok(self.talk.unanswered(Code::from_wire(rest[0]).expect("a code"))),
            "wait" => Ok(self.talk.wake_decision()),
            _ => return false,
        };
        match written {
            Ok(records) => self.wrote(&records),
            Err(refusal) => self.no(&refusal),
        }
        true
    }

    fn no(&mut self, refusal: &Refusal) {
        let text = format!("refused {}: {}", refusal.code, refusal.message);
        let text = self.short(&text);
        self.line(&text);
    }

    fn open(&self) -> DecisionId {
        self.talk.decision().expect("a decision is open").id.clone()
    }

    /// An answer with ids in the place of their names: `$held`, `$ready`, and `$` before a node's.
    fn filled(&self, json: &str) -> String {
        let held = self.talk.session.turn.as_ref().and_then(|turn| turn.held.as_ref()).map(|held| held.id.to_string());
        let ready = self.talk.decision().and_then(|open| open.ready.as_ref()).map(ToString::to_string);
        let mut names: Vec<(&str, &NodeId)> = self.names.iter().map(|(name, (id, _))| (name.as_str(), id)).collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let json = json.replace("$held", held.as_deref().unwrap_or("$held")).replace("$ready", ready.as_deref().unwrap_or("$ready"));
        names.iter().fold(json, |json, (name, id)| json.replace(&format!("${name}"), id.as_str()))
    }
}

/// What a worker is asked, in short.
fn asked(request: &DecisionRequest) -> String {
    let DecisionRequest { trigger, proposed, messages, pending_calls, attempt, state, agent, .. } = request;
    let about = match trigger {
        Trigger::ClientMessages { new_from, client } => {
            let tools: Vec<&str> = client.tools.iter().flatten().map(|tool| tool.name.as_str()).collect();
            let tools = if tools.is_empty() { String::new() } else { format!(", tools {}", tools.join(" ")) };
            let offers = client.state.as_ref().map_or(String::new(), |state| format!(", offers {}", state.get()));
            format!("client.messages, new from {new_from}{tools}{offers}")
        }
        Trigger::ClientAction { name, args, .. } => format!("client.action {name} {}", args.as_ref().map_or("-", |args| args.get())),
        Trigger::TurnFinished { usage } => {
            let tokens = |usage: &Usage| format!(" {}/{}", usage.input_tokens.unwrap_or(0), usage.output_tokens.unwrap_or(0));
            format!("turn.finished{}", usage.iter().map(tokens).collect::<String>())
        }
        Trigger::LlmFinished { ok, message, truncated, error, hidden, held, .. } => {
            let said = message.as_ref().map_or(String::new(), |message| format!(" {:?}", message.joined_text()));
            let flags = [(*truncated, " truncated"), (*hidden, " hidden"), (held.is_some(), " held")];
            let flags: String = flags.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect();
            let error = error.as_ref().map_or(String::new(), |fault| format!(" {}", fault.code));
            format!("llm.finished{}{said}{error}{flags}", if *ok { "" } else { " badly" })
        }
        Trigger::ToolFinished { id, name, result, error, .. } => {
            let result = result.as_ref().map_or(String::new(), |result| format!(" {}", serde_json::to_string(result).unwrap()));
            format!("tool.finished {id} {name}{result}{}", error.as_ref().map_or(String::new(), |error| format!(" error {error:?}")))
        }
        Trigger::ToolExecute { .. } => unreachable!("an execution is no deciding decision"),
        Trigger::InterruptResumed { interrupts } => {
            let answers = interrupts.iter().map(|one| {
                let payload = one.payload.as_ref().map_or(String::new(), |payload| format!(" {}", payload.get()));
                format!("{} ({}) {}{payload}", one.interrupt_id, one.interrupt.reason, one.status.as_str())
            });
            format!("interrupt.resumed {}", answers.collect::<Vec<_>>().join(" · "))
        }
        Trigger::ContextLimit { reason, strategy, tokens, window, call } => {
            let window = window.map_or(String::new(), |window| format!(" of {window}"));
            format!("context.limit {reason:?} {} {tokens}{window} for {}", strategy.as_deref().unwrap_or("-"), call.llm)
        }
    };
    let attempt = if *attempt == 1 { String::new() } else { format!(", attempt {attempt}") };
    let pending: Vec<&str> = pending_calls.iter().map(headwater::ids::ToolCallId::as_str).collect();
    let pending = if pending.is_empty() { String::new() } else { format!(", pending {}", pending.join(" ")) };
    let actions: Vec<String> = proposed.actions.iter().map(action).collect();
    let read: Vec<String> = messages.iter().map(|message| id_of(message)).collect();
    let state = state.as_ref().map_or(String::new(), |state| format!(", state {}", state.get()));
    let agent = agent.as_ref().map_or(String::new(), |agent| format!(", agent {}", serde_json::to_string(agent).unwrap()));
    format!("asked {about}{attempt}{pending}{state}{agent}\nreads {}\nproposed {}", read.join(" "), actions.join(" · "))
}

fn id_of(message: &Message) -> String {
    message.id.as_ref().map_or_else(|| format!("{:?}", message.role), ToString::to_string)
}

fn action(action: &Action) -> String {
    match action {
        Action::Done => "done".to_owned(),
        Action::Interrupt(raise) => format!("interrupt {}", raise.reason),
        Action::InterruptResolve { interrupt_id, .. } => format!("interrupt.resolve {interrupt_id}"),
        Action::Custom { name, value } => format!("custom {name} {}", value.get()),
        Action::Activity { activity_type, content, .. } => format!("activity {activity_type} {}", content.get()),
        Action::ToolCall { id } => format!("tool.call {id}"),
        Action::ToolResult { .. } | Action::ToolError { .. } => unreachable!("no result is proposed"),
        Action::LlmCall(call) => {
            let reads = call.messages.as_ref().map_or(String::new(), |messages| format!(" with {} messages", messages.len()));
            let llm = call.llm.as_ref().map_or(String::new(), |llm| format!(" of {llm}"));
            format!("llm.call{}{llm}{reads}", if call.id.is_some() { " by its id" } else { "" })
        }
        Action::ContextReplace(with) => {
            let summary = with.summary.as_ref().map_or(String::new(), |text| format!(" {text:?}"));
            let kept: Vec<String> = with.messages.iter().map(id_of).collect();
            format!("context.replace{summary} [{}]", kept.join(" "))
        }
    }
}
