//! The export file: a session's whole log as JSON lines. The first says what it is, then one line a record, and the last says how many
//! there are and the chain hash over them, so that a file that was cut, doubled or changed is noticed. May not know what records mean.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Code, Digest, Json, Refusal, json_fault};
use crate::ids::{AgentId, ID_BYTES_MAX, SessionId};

/// What the first line calls the file.
const FORMAT: &str = "headwater.session";
/// Raised when an older reader could not read the file.
const VERSION: u32 = 1;

/// The first line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct First<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
    version: u32,
    session_id: SessionId,
    agent_id: AgentId,
}

/// What every version's first line says.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    format: Option<Cow<'a, str>>,
    version: Option<u32>,
}

/// Any line after the first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Later<'a> {
    seq: Option<u64>,
    #[serde(borrow)]
    record: Option<&'a RawValue>,
    end: Option<u64>,
    tip: Option<Digest>,
}

/// Writes an export, line by line. Each method gives the bytes that come next, line feed included.
#[derive(Debug)]
pub struct Writer {
    seq: u64,
    tip: Digest,
}

impl Writer {
    /// Begins the file of a session that began with `agent_id`.
    pub fn begin(session_id: &SessionId, agent_id: &AgentId) -> (Self, String) {
        let first = First { format: Cow::Borrowed(FORMAT), version: VERSION, session_id: session_id.clone(), agent_id: agent_id.clone() };
        (Self { seq: 0, tip: Digest::default() }, line(&first))
    }

    /// The log's next record. The first one given is its first.
    pub fn record(&mut self, record: &Json) -> String {
        let record = one_line(record.get());
        self.seq += 1;
        self.tip = self.tip.then(record.as_bytes());
        format!("{{\"seq\":{},\"record\":{record}}}\n", self.seq)
    }

    /// How many records were written.
    pub fn records(&self) -> u64 {
        self.seq
    }

    /// Ends the file.
    pub fn end(self) -> String {
        format!("{{\"end\":{},\"tip\":\"{}\"}}\n", self.seq, self.tip)
    }
}

fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).expect("plain data");
    line.push('\n');
    line
}

/// Relayed JSON is kept as it was written, so a record may have line feeds between its tokens (never inside strings).
fn one_line(record: &str) -> Cow<'_, str> {
    let breaks = ['\n', '\r'];
    if record.contains(breaks) { Cow::Owned(record.replace(breaks, " ")) } else { Cow::Borrowed(record) }
}

/// A whole export that was found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The session that was exported.
    pub session_id: SessionId,
    /// The agent that it began with.
    pub agent_id: AgentId,
    /// Its encoded records, in order: at least one.
    pub records: Vec<Bytes>,
}

/// Reads an export, line by line; a fault is named with its line. Whether the records fold into a session isn't looked at.
#[derive(Debug, Default)]
pub struct Reader {
    lines: u64,
    first: Option<(SessionId, AgentId)>,
    records: Vec<Bytes>,
    tip: Digest,
    ended: bool,
}

impl Reader {
    /// Reads a whole file.
    pub fn read(file: &Bytes) -> Result<Export, Refusal> {
        let mut reader = Self::default();
        for line in file.split(|&byte| byte == b'\n') {
            reader.line(&file.slice_ref(line))?;
        }
        reader.finish()
    }

    /// Takes the next line, without its line feed. An empty one is passed over.
    pub fn line(&mut self, line: &Bytes) -> Result<(), Refusal> {
        self.lines += 1;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let text = std::str::from_utf8(line).map_err(|_| self.bad("this is not UTF-8"))?;
        if self.first.is_none() {
            self.first = Some(self.read_first(text)?);
            return Ok(());
        }
        if self.ended {
            return Err(self.bad("something follows the last line; a file holds one export"));
        }
        let later: Later<'_> = serde_json::from_str(text).map_err(|error| self.bad_json(&error))?;
        match (later.seq, later.record, later.end, later.tip) {
            (Some(seq), Some(record), None, None) => self.read_record(seq, record, line),
            (None, None, Some(end), Some(tip)) => self.read_last(end, tip),
            _ => Err(self.bad("a line is `{\"seq\", \"record\"}`, the last one `{\"end\", \"tip\"}`")),
        }
    }

    /// The whole file was read.
    pub fn finish(self) -> Result<Export, Refusal> {
        let Some((session_id, agent_id)) = self.first else {
            return Err(Refusal::new(Code::BadImport, "the file is empty"));
        };
        if !self.ended {
            let what = format!("the file is cut: it has {} records and no last line `{{\"end\", \"tip\"}}`", self.records.len());
            return Err(Refusal::new(Code::BadImport, what));
        }
        Ok(Export { session_id, agent_id, records: self.records })
    }

    fn read_first(&self, text: &str) -> Result<(SessionId, AgentId), Refusal> {
        let kind: Kind<'_> = serde_json::from_str(text).map_err(|error| self.bad_json(&error))?;
        let (Some(FORMAT), Some(version)) = (kind.format.as_deref(), kind.version) else {
            return Err(self.bad(&format!("this is no export; its first line says `\"format\": \"{FORMAT}\"` and a version")));
        };
        if version > VERSION {
            let what = format!("the export has version {version}, and this Headwater reads {VERSION}; a newer one reads it");
            return Err(Refusal::new(Code::NewerVersion, what).with("version", version));
        }
        if version == 0 {
            return Err(self.bad("there is no version 0"));
        }
        let First { session_id, agent_id, .. } = serde_json::from_str(text).map_err(|error| self.bad_json(&error))?;
        for id in [session_id.as_str(), agent_id.as_str()] {
            if !(1..=ID_BYTES_MAX).contains(&id.len()) {
                return Err(self.bad(&format!("an id has 1 to {ID_BYTES_MAX} bytes; this one has {}", id.len())));
            }
        }
        Ok((session_id, agent_id))
    }

    fn read_record(&mut self, seq: u64, record: &RawValue, line: &Bytes) -> Result<(), Refusal> {
        let expected = self.records.len() as u64 + 1;
        if seq != expected {
            let what = if seq < expected { "it is there twice" } else { "records are missing" };
            return Err(self.bad(&format!("record {expected} is expected, and this is {seq}: {what}")));
        }
        if !record.get().starts_with('{') {
            return Err(self.bad("a record is an object"));
        }
        self.tip = self.tip.then(record.get().as_bytes());
        self.records.push(line.slice_ref(record.get().as_bytes()));
        Ok(())
    }

    fn read_last(&mut self, end: u64, tip: Digest) -> Result<(), Refusal> {
        let count = self.records.len() as u64;
        if end != count || count == 0 {
            return Err(self.bad(&format!("the file says that it has {end} records, and it has {count}")));
        }
        if tip != self.tip {
            return Err(self.bad("the records were changed: their hash isn't the one that the last line gives"));
        }
        self.ended = true;
        Ok(())
    }

    fn bad(&self, what: &str) -> Refusal {
        Refusal::new(Code::BadImport, format!("line {}: {what}", self.lines)).with("line", self.lines)
    }

    fn bad_json(&self, error: &serde_json::Error) -> Refusal {
        self.bad(&format!("{} at column {}", json_fault(error), error.column())).with("column", error.column())
    }
}
