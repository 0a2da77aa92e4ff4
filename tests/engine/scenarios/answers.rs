//! What a submit was answered, in short.

use headwater::protocol::Accepted;

use super::Play;

impl Play {
    pub(super) fn accepted(&mut self, accepted: &Accepted, messages: usize) {
        let mut says = vec![format!("accepted {}", accepted.turn_id)];
        says.push(if accepted.reply { "a reply is due" } else { "no reply" }.to_owned());
        let flags = [(accepted.duplicate, "duplicate"), (accepted.root_branch, "root branch"), (accepted.resync, "resync")];
        says.extend(flags.iter().filter(|(set, _)| *set).map(|(_, says)| (*says).to_owned()));
        assert_eq!(accepted.queued, accepted.position.is_some(), "what waits has a place");
        says.extend(accepted.position.map(|position| format!("queued at {position}")));
        says.extend(accepted.arrival.then(|| "an arrival".to_owned()));
        if !accepted.waiting.is_empty() {
            let calls: Vec<&str> = accepted.waiting.iter().map(headwater::ids::ToolCallId::as_str).collect();
            says.push(format!("waits for {}", calls.join(" ")));
        }
        if !accepted.interrupts.is_empty() {
            let open: Vec<&str> = accepted.interrupts.iter().map(|open| open.id.as_str()).collect();
            says.push(format!("pauses for {}", open.join(" ")));
        }
        says.extend(accepted.new_from.filter(|&from| from < messages).map(|from| format!("new from {from}")));
        if accepted.implied_count > 0 {
            says.push(format!("implied {}: {}", accepted.implied_count, self.ids(&accepted.implied)));
        }
        says.extend(accepted.ignored.iter().map(|ignored| format!("ignored {}: {:?}", ignored.index, ignored.reason)));
        if !accepted.ignored_tools.is_empty() {
            says.push(format!("ignored tools: {}", accepted.ignored_tools.join(" ")));
        }
        if !accepted.ignored_edits.is_empty() {
            says.push(format!("ignored edits: {}", self.ids(&accepted.ignored_edits)));
        }
        let says = self.short(&says.join(" · "));
        self.line(&says);
    }
}
