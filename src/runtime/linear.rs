//! Puts a reply's parts one after another. A model may write several calls at once; readers are told a call whole before the next
//! part begins, so that a finished reply says by itself in which order it was told. May not know readers.

use std::collections::VecDeque;

use crate::provider::{Chunk, EncryptedOf};

/// Pieces in the order in which they are told.
#[derive(Debug, Default)]
pub struct Linear {
    /// The call that is being written.
    open: Option<Open>,
    /// What came of later parts meanwhile.
    held: VecDeque<Chunk>,
    ready: VecDeque<Chunk>,
}

#[derive(Debug)]
struct Open {
    index: u32,
    arguments: Arguments,
}

impl Linear {
    /// Takes what came.
    pub fn push(&mut self, chunk: Chunk) {
        if let Chunk::Finished(_) | Chunk::Next = chunk {
            // Whatever is cut stays cut.
            while !self.held.is_empty() {
                self.open = None;
                self.release();
            }
        }
        self.take(chunk);
    }

    /// The next piece that is told.
    pub fn pop(&mut self) -> Option<Chunk> {
        self.ready.pop_front()
    }

    fn release(&mut self) {
        for chunk in std::mem::take(&mut self.held) {
            self.take(chunk);
        }
    }

    fn take(&mut self, chunk: Chunk) {
        self.pass(chunk);
        if self.open.is_none() && !self.held.is_empty() {
            self.release();
        }
    }

    fn pass(&mut self, chunk: Chunk) {
        match &chunk {
            Chunk::ToolArguments { index, delta } => match &mut self.open {
                Some(open) if open.index == *index => {
                    open.arguments.pass(delta);
                    if open.arguments.are_whole() {
                        self.open = None;
                    }
                }
                Some(_) => return self.held.push_back(chunk),
                // Of a call that is whole already.
                None => return,
            },
            Chunk::Encrypted { of, .. } => {
                let is_of = |open: &Open| matches!(of, EncryptedOf::ToolCall(index) if *index == open.index);
                if self.open.as_ref().is_some_and(|open| !is_of(open)) {
                    return self.held.push_back(chunk);
                }
            }
            Chunk::Text(_) | Chunk::Reasoning(_) | Chunk::ToolCall { .. } if self.open.is_some() => return self.held.push_back(chunk),
            Chunk::Text(_)
            | Chunk::Reasoning(_)
            | Chunk::Usage(_)
            // Told when the reply is whole.
            | Chunk::ToolResult { .. }
            | Chunk::State(_)
            | Chunk::Interrupt { .. }
            | Chunk::Next
            | Chunk::Finished(_) => {}
            Chunk::ToolCall { index, .. } => self.open = Some(Open { index: *index, arguments: Arguments::default() }),
        }
        self.ready.push_back(chunk);
    }
}

/// How far a JSON object was written.
#[derive(Debug, Default)]
struct Arguments {
    depth: usize,
    in_text: bool,
    escaped: bool,
    whole: bool,
}

impl Arguments {
    fn pass(&mut self, delta: &str) {
        for byte in delta.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => self.depth += 1,
                b'}' | b']' if !self.in_text => {
                    self.depth = self.depth.saturating_sub(1);
                    self.whole |= self.depth == 0;
                }
                _ => {}
            }
        }
    }

    fn are_whole(&self) -> bool {
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::protocol::Finish;

    fn call(index: u32) -> Chunk {
        Chunk::ToolCall { index, id: None, name: format!("tool{index}") }
    }

    fn arguments(index: u32, delta: &str) -> Chunk {
        Chunk::ToolArguments { index, delta: delta.to_owned() }
    }

    /// What is told after each piece.
    fn told(chunks: Vec<Chunk>) -> Vec<Vec<String>> {
        let mut linear = Linear::default();
        let mut all = Vec::new();
        for chunk in chunks {
            linear.push(chunk);
            all.push(std::iter::from_fn(|| linear.pop()).map(|chunk| said(&chunk)).collect());
        }
        all
    }

    fn said(chunk: &Chunk) -> String {
        match chunk {
            Chunk::Text(text) => format!("text {text}"),
            Chunk::Reasoning(text) => format!("thought {text}"),
            Chunk::ToolCall { index, .. } => format!("call {index}"),
            Chunk::ToolArguments { index, delta } => format!("{index} {delta}"),
            Chunk::Encrypted { value, .. } => format!("opaque {value}"),
            Chunk::Usage(_) => "usage".to_owned(),
            Chunk::ToolResult { of, .. } => format!("{of:?} result"),
            Chunk::State(state) => format!("state {}", state.get()),
            Chunk::Interrupt { interrupt, .. } => format!("interrupt {}", interrupt.id),
            Chunk::Next => "next".to_owned(),
            Chunk::Finished(_) => "finished".to_owned(),
        }
    }

    #[test]
    fn parts_that_come_one_after_another_are_told_at_once() {
        let chunks = vec![
            Chunk::Reasoning("hm".to_owned()),
            Chunk::Text("a".to_owned()),
            call(0),
            arguments(0, "{\"a\":\"}"),
            arguments(0, "\\\"\"}"),
            call(1),
            arguments(1, "{}"),
            Chunk::Text("b".to_owned()),
            Chunk::Finished(Finish::Stop),
        ];
        let count = chunks.len();
        assert_eq!(told(chunks).iter().map(Vec::len).collect::<Vec<_>>(), vec![1; count]);
    }

    #[test]
    fn calls_that_are_written_at_once_are_told_one_after_another() {
        let chunks = vec![
            call(0),
            call(1),
            arguments(0, "{\"a\""),
            arguments(1, "{"),
            Chunk::Text("so".to_owned()),
            arguments(0, ":1}"),
            arguments(1, "}"),
            Chunk::Finished(Finish::ToolCalls),
        ];
        let told = told(chunks);
        assert_eq!(
            told[..5],
            [vec!["call 0"], vec![], vec!["0 {\"a\""], vec![], vec![]].map(|said| said.into_iter().map(String::from).collect::<Vec<_>>())
        );
        assert_eq!(told[5], ["0 :1}", "call 1", "1 {"]);
        assert_eq!(told[6], ["1 }", "text so"]);
        assert_eq!(told[7], ["finished"]);
    }

    #[test]
    fn what_is_cut_stays_cut_and_the_rest_is_told() {
        let chunks = vec![call(0), call(1), call(2), arguments(2, "{}"), Chunk::Finished(Finish::Length)];
        assert_eq!(told(chunks)[4], ["call 1", "call 2", "2 {}", "finished"]);
    }

    proptest! {
        #[test]
        fn each_part_is_told_whole_and_alone(order in prop::collection::vec(0u32..3, 0..30)) {
            let texts = ["{\"a\":[1,2]}", "{\"b\":\"x\"}", "{}"];
            let mut given = [0usize; 3];
            let mut chunks: Vec<Chunk> = (0..3).map(call).collect();
            for index in order {
                let at = &mut given[index as usize];
                if let Some(next) = texts[index as usize].get(*at..=*at) {
                    *at += 1;
                    chunks.push(arguments(index, next));
                }
            }
            chunks.push(Chunk::Finished(Finish::ToolCalls));
            let all: Vec<String> = told(chunks).into_iter().flatten().collect();
            let mut parts: Vec<(u32, String)> = Vec::new();
            for said in &all[..all.len() - 1] {
                if let Some(index) = said.strip_prefix("call ") {
                    parts.push((index.parse().unwrap(), String::new()));
                    continue;
                }
                let (index, delta) = said.split_once(' ').unwrap();
                let last = parts.last_mut().unwrap();
                prop_assert_eq!(last.0, index.parse::<u32>().unwrap());
                last.1.push_str(delta);
            }
            let whole: Vec<(u32, String)> = (0..3).map(|n| (n, texts[n as usize][..given[n as usize]].to_owned())).collect();
            prop_assert_eq!(parts, whole);
        }
    }
}
