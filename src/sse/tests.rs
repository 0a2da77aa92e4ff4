//! The decoder against the standard's examples, and under any chunking.

use proptest::prelude::*;

use super::{Decoder, TooLarge};

type Owned = (String, String, String);

/// Feeds `pieces`, then ends the stream.
fn decode<'a>(event_bytes_max: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Owned>, Result<Option<Owned>, TooLarge>) {
    let mut decoder = Decoder::new(event_bytes_max);
    let mut events = Vec::new();
    let owned = |event: super::Event<'_>| (event.name.to_owned(), event.data.to_owned(), event.id.to_owned());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.pull() {
                Ok(Some(event)) => events.push(owned(event)),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
    }
    let rest = decoder.finish().map(|event| event.map(owned));
    (events, rest)
}

fn data(stream: &[u8]) -> Vec<String> {
    decode(1000, [stream]).0.into_iter().map(|(_, data, _)| data).collect()
}

#[test]
fn all_three_line_ends_end_lines() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = ["data: a", "data: b", "", "data: c", "", ""].join(end);
        assert_eq!(data(stream.as_bytes()), ["a\nb", "c"], "{end:?}");
    }
}

#[test]
fn one_space_after_the_colon_is_no_data() {
    assert_eq!(data(b"data:a\n\ndata: b\n\ndata:  c\n\n"), ["a", "b", " c"]);
}

#[test]
fn a_data_line_may_be_empty_and_an_event_without_one_is_none() {
    assert_eq!(data(b"data\n\ndata:\ndata\n\n: only a comment\n\nevent: x\n\n\n\n"), ["", "\n"]);
}

#[test]
fn the_name_is_the_events_and_the_id_stays() {
    let (events, _) = decode(1000, [b"id: 7\nevent: error\ndata: a\n\ndata: b\n\nid: \0\ndata: c\n\nid\ndata: d\n\n".as_slice()]);
    let expected = [("error", "a", "7"), ("", "b", "7"), ("", "c", "7"), ("", "d", "")];
    assert_eq!(events, expected.map(|(name, data, id)| (name.to_owned(), data.to_owned(), id.to_owned())));
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    assert_eq!(data(b"\xEF\xBB\xBFdata: a\n\n\xEF\xBB\xBFdata: b\n\ndata: c\n\n"), ["a", "c"]);
    assert_eq!(data(b"\xEF\xBBdata: a\n\ndata: b\n\n"), ["b"]);
}

#[test]
fn what_is_no_utf8_is_replaced() {
    assert_eq!(data(b"data: a\xFFb\ndata: \xE2\x82\n\ndata: \xF0\x9F\x8C\x8A\n\n"), ["a\u{FFFD}b\n\u{FFFD}", "🌊"]);
}

#[test]
fn the_unterminated_event_is_kept_apart() {
    let (events, rest) = decode(1000, [b"data: a\n\ndata: b\ndata: c".as_slice()]);
    assert_eq!(events.len(), 1);
    assert_eq!(rest.unwrap().unwrap().1, "b\nc");
    assert_eq!(decode(1000, [b"data: a\n\n: bye".as_slice()]).1, Ok(None));
    assert_eq!(decode(1000, [b"\xEF\xBB".as_slice()]).1, Ok(None));
}

#[test]
fn an_event_over_the_limit_ends_the_stream() {
    let refused = Err(TooLarge { event_bytes_max: 10 });
    for stream in ["data: 1234\n\ndata: 12345\n\ndata: 1\n\n", "data: 1234\n\ndata: 12345", "data: 1234\n\ndata: 1\ndata: 1234\n\n"] {
        let (events, end) = decode(10, [stream.as_bytes()]);
        assert_eq!((events.len(), end), (1, refused.clone()), "{stream:?}");
    }
    let mut decoder = Decoder::new(10);
    decoder.push(b": no end in sight");
    assert!(decoder.pull().is_err());
    decoder.push(b"\n\ndata: a\n\n");
    assert!(decoder.pull().is_err() && decoder.finish().is_err());
}

#[test]
fn a_long_line_in_single_bytes_is_searched_once() {
    let long = "x".repeat(2_000_000);
    let stream = format!("data: {long}\n\n");
    let (events, _) = decode(3_000_000, stream.as_bytes().chunks(1));
    assert_eq!(events[0].1, long);
}

/// Streams of everything that matters: fields, all line ends, marks, whole and broken characters.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let words: [&[u8]; 20] = [
        b"data: ",
        b"data:",
        b"data",
        b"event: ",
        b"id: ",
        b"retry: 3",
        b":",
        b" ",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\r\n\r\n",
        b"\0",
        b"\xEF\xBB\xBF",
        b"\xF0\x9F",
        b"\xFF",
        "🌊".as_bytes(),
        "ż".as_bytes(),
        b"{\"a\":1}",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(stream in streams(), cuts in prop::collection::vec(1usize..9, 1..40), limit in 4usize..80) {
        let whole = decode(limit, [stream.as_slice()]);
        let mut rest = stream.as_slice();
        let pieces = cuts.iter().cycle().map_while(|&size| {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(decode(limit, pieces), whole.clone());
        prop_assert_eq!(decode(limit, stream.chunks(1)), whole);
    }
}
