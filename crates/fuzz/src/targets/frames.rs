//! Frames between nodes, which arrive in pieces.

use crate::{Dice, chance, damage};
use bytes::BytesMut;
use rand::Rng;
use runtime::tcp::frame::{Frame, FrameError, FrameKind, FrameReader, FrameWriter};

/// The longest body that the reader allows here.
const BODY_BYTES_MAX: usize = 1 << 12;

/// The length of a piece, then what arrives.
pub fn input(dice: &mut Dice) -> Vec<u8> {
    const KINDS: [FrameKind; 4] = [FrameKind::Message, FrameKind::Ping, FrameKind::Status, FrameKind::Answer];
    let (mut writer, mut arrives) = (FrameWriter::default(), BytesMut::new());
    for _ in 0..dice.random_range(0..6) {
        let body: Vec<u8> = (0..dice.random_range(0..40)).map(|_| dice.random()).collect();
        writer.frame(KINDS[dice.random_range(0..KINDS.len())], &body, &mut arrives);
    }
    let mut bytes = arrives.to_vec();
    if chance(dice, 70) {
        damage::damage(dice, &mut bytes);
    }
    bytes.insert(0, dice.random_range(1..20));
    bytes
}

pub fn handle(input: &[u8]) -> Result<(), String> {
    let Some((piece, bytes)) = input.split_first() else { return Ok(()) };
    let whole = read(bytes.chunks(bytes.len().max(1)));
    let in_pieces = read(bytes.chunks(usize::from(*piece).max(1)));
    if whole == in_pieces {
        return Ok(());
    }
    Err(format!("in pieces of {piece} bytes {in_pieces:?}, otherwise {whole:?}"))
}

/// Frames, and why there are no more of them.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, Option<FrameError>) {
    let (mut reader, mut arrived) = (FrameReader::new(BODY_BYTES_MAX), BytesMut::new());
    let mut frames = Vec::new();
    for piece in pieces {
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
