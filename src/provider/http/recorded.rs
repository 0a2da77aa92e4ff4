//! Recorded streams: `tests/fixtures/<service>/*.sse`, and beside each the chunks that it gives, one a line. Every service's must
//! hold the same: splits change nothing, and a cut anywhere is a cut.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::reply::Body;
use super::{Reply, Translate};
use crate::protocol::{CallError, CallErrorKind};
use crate::provider::Chunk;

/// What a reply gives, in order.
pub type Items = Vec<Result<Chunk, CallError>>;

/// The recordings of a service.
pub fn fixtures<T: Translate>() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(T::SERVICE);
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut streams: Vec<_> = files.filter(|file| file.extension().is_some_and(|extension| extension == "sse")).collect();
    streams.sort();
    assert!(streams.len() >= 20, "only {}", streams.len());
    streams
}

/// A reply with this body.
pub fn reply<T: Translate + Default>(body: Body) -> Reply<T> {
    Reply::new(body, Duration::from_mins(1), T::default())
}

/// What a reply gives whose body comes in these pieces.
pub async fn replied<T: Translate + Default>(pieces: impl IntoIterator<Item = &[u8]>) -> Items {
    let pieces: Vec<_> = pieces.into_iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    reply::<T>(stream::iter(pieces).boxed()).collect().await
}

/// The same, one item a line.
pub fn lines(items: &[Result<Chunk, CallError>]) -> String {
    items.iter().fold(String::new(), |mut lines, item| {
        match item {
            Ok(chunk) => writeln!(lines, "{chunk:?}"),
            Err(error) => writeln!(lines, "{:?}: {}", error.kind, error.message),
        }
        .unwrap();
        lines
    })
}

/// Each recording gives the chunks that stand beside it.
pub async fn each_gives_its_chunks<T: Translate + Default>() {
    let mut others = String::new();
    for file in fixtures::<T>() {
        let stream = std::fs::read(&file).unwrap();
        let expected = std::fs::read_to_string(file.with_extension("chunks")).unwrap_or_default();
        let actual = lines(&replied::<T>([stream.as_slice()]).await);
        if actual != expected {
            write!(others, "==> {}\n{actual}", file.display()).unwrap();
        }
    }
    assert!(others.is_empty(), "these give something else:\n{others}");
}

/// However the network splits a recording, it gives the same.
pub async fn splits_change_nothing<T: Translate + Default>() {
    for file in fixtures::<T>() {
        let stream = std::fs::read(&file).unwrap();
        let whole = replied::<T>([stream.as_slice()]).await;
        assert_eq!(replied::<T>(stream.chunks(1)).await, whole, "{} in single bytes", file.display());
        for at in 0..=stream.len() {
            let (before, after) = stream.split_at(at);
            assert_eq!(replied::<T>([before, after]).await, whole, "{} at byte {at}", file.display());
        }
    }
}

/// A stream cut anywhere gives the beginning of what the whole one gives, then one end; nothing half comes through. It is
/// finished only where `has_end` says that the service or the model has said so.
pub async fn a_cut_anywhere_is_a_cut_or_a_finish<T: Translate + Default>(has_end: impl Fn(&str) -> bool) {
    let mut cuts = 0;
    for file in fixtures::<T>() {
        let stream = std::fs::read(&file).unwrap();
        let whole = replied::<T>([stream.as_slice()]).await;
        for at in 0..stream.len() {
            let items = replied::<T>([&stream[..at]]).await;
            let place = format!("{} cut at byte {at}", file.display());
            assert_beginning(&whole, &items, has_end(&String::from_utf8_lossy(&stream[..at])), &place);
            cuts += usize::from(matches!(items.last(), Some(Err(error)) if error.kind == CallErrorKind::Cut));
        }
    }
    assert!(cuts > 1000, "only {cuts}");
}

/// `items` is the beginning of `whole`, then one end. It is finished only when it `may_be`.
pub fn assert_beginning(whole: &Items, items: &Items, may_be: bool, place: &str) {
    let is_said = |item: &&Result<Chunk, CallError>| !matches!(item, Ok(Chunk::Usage(_)));
    let (end, before) = items.split_last().unwrap();
    assert!(before.iter().all(|item| matches!(item, Ok(chunk) if !matches!(chunk, Chunk::Finished(_)))), "{place}: {items:?}");
    let said: Vec<_> = before.iter().filter(is_said).collect();
    assert!(whole.iter().filter(is_said).take(said.len()).eq(said), "{place}: {items:?}");
    match end {
        Ok(Chunk::Finished(_)) => assert!(may_be, "{place}: {items:?}"),
        Err(error) if error.kind == CallErrorKind::Cut => {}
        end => assert_eq!(Some(end), whole.last(), "{place}"),
    }
}
