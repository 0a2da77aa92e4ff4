//! `headwater export` and `headwater import`: a session's log to a file and back. What a file looks like is the protocol's.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;

use bytes::Bytes;

use super::client::Client;
use super::error::Error;
use crate::draw::in_one_line;
use crate::ids::SessionId;
use crate::protocol::export::{Reader, Writer};
use crate::protocol::{Code, Imported, RecordsPage, SessionPage};

/// Records a page.
const PAGE: &str = "1000";
/// The largest file that is read, in bytes. What a server takes is its own limit.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Writes a session's log; what is to be said about it.
pub(super) async fn export(client: &Client, session: &str, file: &Path) -> Result<String, Error> {
    let page: SessionPage = client.get(&["v1", "sessions", session], &[]).await?;
    let out = open(file)?;
    let written = write(client, &page, file, out).await;
    if written.is_err() && file != Path::new("-") {
        // A part of an export is none. It was made just now, so it is ours to take away.
        let _ = std::fs::remove_file(file);
    }
    written.map(|records| format!("{} is exported: {records} records", in_one_line(session)))
}

async fn write(client: &Client, page: &SessionPage, file: &Path, mut out: Box<dyn Write>) -> Result<u64, Error> {
    let session = page.session_id.as_str();
    let failed = |source| Error::File { doing: format!("write {}", name(file, "standard output")), source };
    let (mut writer, first) = Writer::begin(&page.session_id, &page.agent_id);
    out.write_all(first.as_bytes()).map_err(failed)?;
    let mut after = 0;
    loop {
        let query = [("after", after.to_string()), ("limit", PAGE.to_owned())];
        let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let page: RecordsPage = client.get(&["v1", "sessions", session, "records"], &query).await?;
        for line in &page.records {
            // A session that was erased and made again in between would give a log that never was.
            if line.seq != writer.records() + 1 {
                return Err(Error::Changed { session: session.to_owned() });
            }
            out.write_all(writer.record(&line.record).as_bytes()).map_err(failed)?;
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let records = writer.records();
    out.write_all(writer.end().as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
    Ok(records)
}

fn open(file: &Path) -> Result<Box<dyn Write>, Error> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdout().lock()));
    }
    // A file that is there may be the only copy of something.
    let opened = OpenOptions::new().write(true).create_new(true).open(file);
    let opened = opened.map_err(|source| Error::File { doing: format!("make the file {}", file.display()), source })?;
    Ok(Box::new(io::BufWriter::new(opened)))
}

/// A file that was read and found good.
pub struct Good {
    name: String,
    text: Bytes,
    session: SessionId,
}

/// Reads an export to its end, and checks it: before a server is looked for, and before anything is sent.
pub(super) fn read(file: &Path) -> Result<Good, Error> {
    let name = name(file, "standard input");
    let text = read_all(file).map_err(|source| Error::File { doing: format!("read {name}"), source })?;
    match Reader::read(&text) {
        Ok(export) => Ok(Good { name, text, session: export.session_id }),
        Err(refusal) => Err(Error::Import { file: name, refusal: Box::new(refusal) }),
    }
}

/// Sends a file's log; what is to be said about it.
pub(super) async fn import(client: &Client, file: Good, session: Option<&str>) -> Result<String, Error> {
    let session = session.unwrap_or(file.session.as_str());
    let imported: Imported = match client.post(&["v1", "sessions", session, "records"], file.text).await {
        Err(Error::Refused(refusal)) if matches!(refusal.code, Code::BadImport | Code::NewerVersion) => {
            return Err(Error::Import { file: file.name, refusal: Box::new(refusal) });
        }
        answer => answer?,
    };
    let shown = in_one_line(imported.session_id.as_str()).into_owned();
    let what = if imported.duplicate { "was there already, the very same" } else { "is imported" };
    Ok(format!("{shown} {what}: {} records", imported.records))
}

fn read_all(file: &Path) -> io::Result<Bytes> {
    let mut text = Vec::new();
    if file == Path::new("-") {
        io::stdin().lock().take(FILE_BYTES_MAX + 1).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text))
    }?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text.into())
}

fn name(file: &Path, dash: &str) -> String {
    if file == Path::new("-") { dash.to_owned() } else { file.display().to_string() }
}
