//! Frames: what a connection between two nodes consists of, once it is open.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the body, little-endian |
//! | 1 | [`FrameKind`] |
//! | 8 | the frame's number on this connection and in this direction, from 0, little-endian |
//! | length | the body |
//!
//! KEEPS: a body is at most as long as the reader allows, and no memory is reserved for bytes that have not arrived; a
//! frame whose number is not the next one (repeated, lost, out of order) is an error. After an error nothing more is
//! read: the connection has to end.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The longest body. Greater messages are not sent.
pub const BODY_BYTES_MAX: usize = 256 << 20;

/// Bytes before a body.
pub const HEADER_BYTES: usize = 13;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A message of a node, encoded by `base::codec`.
    Message = 1,
    /// Asks for a `Pong` with the same body.
    Ping = 2,
    Pong = 3,
    /// What a node tells an operator.
    Status = 4,
    /// A question to a replica's process, and its answer ([`super::calls`]).
    Call = 5,
    Answer = 6,
}

impl FrameKind {
    const ALL: [FrameKind; 6] = [
        FrameKind::Message,
        FrameKind::Ping,
        FrameKind::Pong,
        FrameKind::Status,
        FrameKind::Call,
        FrameKind::Answer,
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub body: Bytes,
}

/// Why a connection cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    TooLong {
        bytes: u64,
        bytes_max: u64,
    },
    UnknownKind {
        kind: u8,
    },
    /// Repeated, or one before it is missing.
    OutOfOrder {
        found: u64,
        expected: u64,
    },
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::TooLong { bytes, bytes_max } => {
                write!(f, "a frame of {bytes} bytes; the longest may have {bytes_max}")
            }
            FrameError::UnknownKind { kind } => write!(f, "a frame of unknown kind {kind}"),
            FrameError::OutOfOrder { found, expected } if found < expected => {
                write!(f, "frame {found} came again; {expected} was to come next")
            }
            FrameError::OutOfOrder { found, expected } => {
                write!(f, "frame {found} came, and {expected} was to come next")
            }
        }
    }
}
impl std::error::Error for FrameError {}

/// Numbers frames and writes their headers.
#[derive(Debug, Default)]
pub struct FrameWriter {
    next: u64,
}

impl FrameWriter {
    /// Appends the header of the next frame.
    pub fn header(&mut self, kind: FrameKind, body_bytes: usize, out: &mut BytesMut) {
        assert!(body_bytes <= BODY_BYTES_MAX, "a body of {body_bytes} bytes");
        out.put_u32_le(body_bytes as u32);
        out.put_u8(kind as u8);
        out.put_u64_le(self.next);
        self.next += 1;
    }
    pub fn frame(&mut self, kind: FrameKind, body: &[u8], out: &mut BytesMut) {
        self.header(kind, body.len(), out);
        out.extend_from_slice(body);
    }
}

/// Takes frames out of what has arrived.
#[derive(Debug)]
pub struct FrameReader {
    next: u64,
    bytes_max: usize,
}

impl FrameReader {
    pub fn new(bytes_max: usize) -> FrameReader {
        FrameReader { next: 0, bytes_max }
    }
    /// The next frame, if all of it has arrived.
    pub fn take(&mut self, arrived: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        if arrived.len() < HEADER_BYTES {
            return Ok(None);
        }
        let mut header = &arrived[..HEADER_BYTES];
        let (bytes, kind, found) = (header.get_u32_le() as usize, header.get_u8(), header.get_u64_le());
        if bytes > self.bytes_max {
            return Err(FrameError::TooLong { bytes: bytes as u64, bytes_max: self.bytes_max as u64 });
        }
        let known = FrameKind::ALL.into_iter().find(|known| *known as u8 == kind);
        let kind = known.ok_or(FrameError::UnknownKind { kind })?;
        if found != self.next {
            return Err(FrameError::OutOfOrder { found, expected: self.next });
        }
        if arrived.len() < HEADER_BYTES + bytes {
            return Ok(None);
        }
        self.next += 1;
        arrived.advance(HEADER_BYTES);
        Ok(Some(Frame { kind, body: arrived.split_to(bytes).freeze() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(frames: &[(FrameKind, Vec<u8>)]) -> BytesMut {
        let (mut writer, mut out) = (FrameWriter::default(), BytesMut::new());
        frames.iter().for_each(|(kind, body)| writer.frame(*kind, body, &mut out));
        out
    }

    /// Everything that a reader makes of bytes that come in pieces.
    fn read(bytes: &[u8], piece: usize) -> (Vec<Frame>, Option<FrameError>) {
        let (mut reader, mut arrived, mut frames) = (FrameReader::new(1000), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(piece.max(1)) {
            arrived.extend_from_slice(piece);
            loop {
                match reader.take(&mut arrived) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
        }
        (frames, None)
    }

    fn kind() -> impl Strategy<Value = FrameKind> {
        (0..4usize).prop_map(|n| FrameKind::ALL[n])
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written_however_they_are_cut(
            frames in proptest::collection::vec((kind(), proptest::collection::vec(any::<u8>(), 0..100)), 0..8),
            piece in 1usize..40,
        ) {
            let (found, error) = read(&written(&frames), piece);
            prop_assert_eq!(error, None);
            let found: Vec<_> = found.into_iter().map(|f| (f.kind, f.body.to_vec())).collect();
            prop_assert_eq!(found, frames);
        }

        #[test]
        fn garbage_is_an_error_or_incomplete_and_never_reserves_what_it_claims(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            piece in 1usize..40,
        ) {
            let (frames, _) = read(&bytes, piece);
            prop_assert!(frames.len() * HEADER_BYTES <= bytes.len());
        }

        #[test]
        fn a_changed_header_never_becomes_another_frame_unseen(
            body in proptest::collection::vec(any::<u8>(), 0..50),
            at in 4usize..HEADER_BYTES,
            bit in 0u8..8,
        ) {
            let mut bytes = written(&[(FrameKind::Message, body), (FrameKind::Ping, vec![1])]);
            bytes[at] ^= 1 << bit;
            let (frames, error) = read(&bytes, 1000);
            // Another kind is another frame: only TLS protects what is inside.
            prop_assert!(error.is_some() || frames[0].kind != FrameKind::Message);
        }
    }

    #[test]
    fn a_frame_that_comes_again_and_one_that_is_missing_end_the_connection() {
        let two = written(&[(FrameKind::Message, vec![1]), (FrameKind::Message, vec![2])]);
        let (one, other) = two.split_at(two.len() / 2);
        let again = [one, one].concat();
        let (frames, error) = read(&again, 1000);
        assert_eq!((frames.len(), error), (1, Some(FrameError::OutOfOrder { found: 0, expected: 1 })));
        assert_eq!(read(other, 1000).1, Some(FrameError::OutOfOrder { found: 1, expected: 0 }));
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_by_its_header_alone() {
        let mut bytes = written(&[(FrameKind::Message, Vec::new())]);
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = FrameError::TooLong { bytes: u64::from(u32::MAX), bytes_max: 1000 };
        assert_eq!(read(&bytes, 1000), (Vec::new(), Some(error)));
    }
}
