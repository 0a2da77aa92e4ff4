//! Reads WebSocket frame headers before the library buffers what they announce: a frame that declares more than the limit, or a
//! message in too many frames, ends the stream at its header instead of growing memory.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use futures_util::Stream;

/// The longest header that a client's frame has: two bytes, eight of length, four of mask.
const HEADER_MAX: usize = 14;

/// A payload whose frames are looked at as they pass.
pub(super) struct Guard<S> {
    inner: S,
    walk: Walk,
}

impl<S> Guard<S> {
    /// Lets pass frames of at most `frame_bytes_max`, messages of at most `message_frames_max` frames.
    pub(super) fn new(inner: S, frame_bytes_max: usize, message_frames_max: u32) -> Self {
        Self { inner, walk: Walk::new(frame_bytes_max, message_frames_max) }
    }
}

impl<S: Stream<Item = Result<Bytes, PayloadError>> + Unpin> Stream for Guard<S> {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(Pin::new(&mut self.inner).poll_next(context));
        Poll::Ready(next.map(|bytes| {
            let bytes = bytes?;
            self.walk.pass(&bytes).map(|()| bytes)
        }))
    }
}

/// Where in the stream of frames we are.
struct Walk {
    frame_bytes_max: u64,
    message_frames_max: u32,
    header: [u8; HEADER_MAX],
    have: usize,
    payload_left: u64,
    frames: u32,
}

impl Walk {
    fn new(frame_bytes_max: usize, message_frames_max: u32) -> Self {
        let frame_bytes_max = u64::try_from(frame_bytes_max).unwrap_or(u64::MAX);
        Self { frame_bytes_max, message_frames_max, header: [0; HEADER_MAX], have: 0, payload_left: 0, frames: 0 }
    }

    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), PayloadError> {
        loop {
            let skipped = usize::try_from(self.payload_left).unwrap_or(usize::MAX).min(bytes.len());
            self.payload_left -= skipped as u64;
            bytes = &bytes[skipped..];
            let Some((byte, rest)) = bytes.split_first() else { return Ok(()) };
            bytes = rest;
            self.header[self.have] = *byte;
            self.have += 1;
            self.look()?;
        }
    }

    /// Looks at the header as far as it is there; once it is whole, goes on to the payload.
    fn look(&mut self) -> Result<(), PayloadError> {
        if self.have < 2 {
            return Ok(());
        }
        let length_bytes = match self.header[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask_bytes = if self.header[1] & 0x80 == 0 { 0 } else { 4 };
        if self.have < 2 + length_bytes + mask_bytes {
            return Ok(());
        }
        let declared = match length_bytes {
            0 => u64::from(self.header[1] & 0x7f),
            _ => self.header[2..2 + length_bytes].iter().fold(0, |length, byte| length << 8 | u64::from(*byte)),
        };
        self.have = 0;
        if declared > self.frame_bytes_max {
            return Err(PayloadError::Overflow);
        }
        self.payload_left = declared;
        self.count(self.header[0] & 0x0f)
    }

    fn count(&mut self, opcode: u8) -> Result<(), PayloadError> {
        const CONTINUATION: u8 = 0;
        const CONTROL: u8 = 8;
        match opcode {
            CONTINUATION => self.frames = self.frames.saturating_add(1),
            // Pings may stand between a message's frames.
            CONTROL.. => return Ok(()),
            _ => self.frames = 1,
        }
        if self.frames > self.message_frames_max { Err(PayloadError::Overflow) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(opcode: u8, payload: usize) -> Vec<u8> {
        let mut bytes = vec![opcode];
        match payload {
            0..126 => bytes.push(0x80 | u8::try_from(payload).unwrap()),
            126..65536 => {
                bytes.push(0xfe);
                bytes.extend(u16::try_from(payload).unwrap().to_be_bytes());
            }
            _ => {
                bytes.push(0xff);
                bytes.extend((payload as u64).to_be_bytes());
            }
        }
        bytes.extend([1, 2, 3, 4]);
        bytes
    }

    fn frame(opcode: u8, payload: usize) -> Vec<u8> {
        let mut bytes = header(opcode, payload);
        bytes.extend(std::iter::repeat_n(0xff, payload));
        bytes
    }

    #[test]
    fn a_header_is_enough_to_refuse() {
        let mut walk = Walk::new(1000, 10);
        assert!(walk.pass(&frame(0x81, 1000)).is_ok());
        assert!(walk.pass(&header(0x82, 256 << 20)).is_err());
    }

    #[test]
    fn empty_continuations_are_counted() {
        let mut walk = Walk::new(1000, 10);
        assert!(walk.pass(&frame(0x01, 1)).is_ok());
        for _ in 0..9 {
            assert!(walk.pass(&frame(0x89, 0)).is_ok(), "pings don't count");
            assert!(walk.pass(&frame(0x00, 0)).is_ok());
        }
        assert!(walk.pass(&frame(0x00, 0)).is_err());
    }

    proptest! {
        #[test]
        fn any_cut_finds_the_same_frames(sizes in prop::collection::vec(0usize..70_000, 1..6), cut in 1usize..5000, over in any::<bool>()) {
            let mut bytes: Vec<u8> = sizes.iter().flat_map(|size| frame(0x82, *size)).collect();
            if over {
                bytes.extend(header(0x82, 70_001));
            }
            let mut walk = Walk::new(70_000, 10);
            let passed = bytes.chunks(cut).try_for_each(|piece| walk.pass(piece));
            prop_assert_eq!(passed.is_err(), over);
        }
    }
}
