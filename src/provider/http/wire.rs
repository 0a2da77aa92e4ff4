//! Recordings over real connections, byte by byte: the answer's bytes are cut into packets and into HTTP's own chunks everywhere, and
//! the connection is closed after each byte. What holds for every kind of provider is checked here; each calls it with its own API.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;

use super::recorded::{Items, assert_beginning, fixtures};
use super::upstream::{HEAD, PATIENCE, Step, Upstream, chunk, streamed};
use super::{Api, Http};
use crate::protocol::{CallErrorKind, CallRequest, Message, Role};
use crate::provider::Provider;

/// Of most recordings the connection is closed after every so many bytes only.
const STRIDE: usize = 29;

/// One upstream that gives one answer after the other, and a provider that asks it.
struct Asked<A> {
    provider: Http<A>,
    _upstream: Upstream,
}

impl<A: Api> Asked<A> {
    async fn start(make: impl Fn(&str) -> A, answers: Vec<Vec<Step>>) -> Self {
        let upstream = Upstream::start(answers).await;
        let api = make(&upstream.base_url);
        let client = api.connection().client().unwrap();
        Self { provider: Http::new(Arc::new(api), client), _upstream: upstream }
    }

    async fn next(&self) -> Items {
        let messages = vec![Message::text(Role::User, "q").into()];
        let request = CallRequest { model: None, system: None, messages, tools: Vec::new(), index: 0, hidden: false, occasion: None };
        tokio::time::timeout(PATIENCE, self.provider.start(request).collect()).await.expect("an end")
    }
}

fn recordings<A: Api>() -> impl Iterator<Item = (PathBuf, Vec<u8>)> {
    fixtures::<A::Translator>().into_iter().map(|file| {
        let stream = std::fs::read(&file).unwrap();
        (file, stream)
    })
}

/// A recording gives the same whatever chunks and packets its bytes come in: in one, in single bytes, in pieces of every phase, so
/// that each character, each line, each CR LF, and each length of a chunk is cut at each of its bytes.
pub async fn check_pieces<A: Api>(make: impl Fn(&str) -> A) {
    for (file, stream) in recordings::<A>().filter(|(_, stream)| !stream.is_empty()) {
        let whole = streamed([stream.as_slice()]);
        let chunked = [1, 2, 3, 7].map(|bytes| vec![Step::Write(streamed(stream.chunks(bytes)))]);
        let single = [whole.clone(), streamed(stream.chunks(5))].map(|answer| packets(&answer, &[], 1));
        let phases = (0..4).map(|phase| packets(&whole, &whole[..phase], 4));
        let halves = inside(&stream).into_iter().map(|at| {
            let at = whole.len() - b"\r\n0\r\n\r\n".len() - stream.len() + at;
            vec![Step::Write(whole[..at].to_vec()), Step::Write(whole[at..].to_vec())]
        });
        let answers: Vec<_> =
            [vec![Step::Write(whole.clone())]].into_iter().chain(chunked).chain(single).chain(phases).chain(halves).collect();
        let count = answers.len();
        let asked = Asked::start(&make, answers).await;
        let expected = asked.next().await;
        for number in 1..count {
            assert_eq!(asked.next().await, expected, "{} in pieces, the {number}th way", file.display());
        }
    }
}

/// The answer in packets: `first`, then so many bytes each.
fn packets(answer: &[u8], first: &[u8], bytes: usize) -> Vec<Step> {
    let first = Some(first).filter(|first| !first.is_empty());
    first.into_iter().chain(answer[first.map_or(0, <[u8]>::len)..].chunks(bytes)).map(|packet| Step::Write(packet.to_vec())).collect()
}

/// The places inside characters, between CR and LF, and right before and after each line's end.
fn inside(stream: &[u8]) -> Vec<usize> {
    let is_end = |byte: u8| matches!(byte, b'\r' | b'\n');
    (1..stream.len()).filter(|&at| stream[at] & 0xC0 == 0x80 || is_end(stream[at]) || is_end(stream[at - 1])).collect()
}

/// A connection that is closed after any byte gives the beginning of what the whole answer gives, and a finished reply only if the model
/// said that it is done, which `has_end` tells of a beginning. The recordings of these names are cut after every single byte.
pub async fn check_closes<A: Api>(make: impl Fn(&str) -> A, thoroughly: &[&str], has_end: impl Fn(&str) -> bool) {
    let mut cuts = 0;
    for (file, stream) in recordings::<A>() {
        let is_thorough = thoroughly.iter().any(|name| file.file_stem() == Some(name.as_ref()));
        let answer = [HEAD.as_bytes().to_vec()]
            .into_iter()
            .chain(stream.split_inclusive(|&byte| byte == b'\n').map(chunk))
            .collect::<Vec<_>>()
            .concat();
        let places: Vec<_> = (0..answer.len()).step_by(if is_thorough { 1 } else { STRIDE }).collect();
        let closing = places.iter().map(|&at| vec![Step::Write(answer[..at].to_vec()), Step::Close]);
        let whole = vec![Step::Write(answer.clone()), Step::Write(b"0\r\n\r\n".to_vec())];
        let asked = Asked::start(&make, [whole].into_iter().chain(closing).collect()).await;
        let whole = asked.next().await;
        for &at in &places {
            let items = asked.next().await;
            let place = format!("{} closed after byte {at}", file.display());
            if at < HEAD.len() {
                assert!(matches!(items.as_slice(), [Err(error)] if error.kind == CallErrorKind::Unavailable), "{place}: {items:?}");
            } else {
                let body = String::from_utf8_lossy(&answer[HEAD.len()..at]).into_owned();
                assert_beginning(&whole, &items, has_end(&body), &place);
                cuts += usize::from(matches!(items.last(), Some(Err(error)) if error.kind == CallErrorKind::Cut));
            }
        }
    }
    assert!(cuts > 500, "{cuts}");
}
