//! An envelope for small pieces that stand at the beginning of files: what it is, its format, and a checksum.
//!
//! KEEPS: the envelope itself never changes, so that a program can tell a later format from damage.

/// Magic, format, length of the body, checksum.
pub(crate) const HEAD_BYTES: usize = 20;

/// Longest body that is believed.
const BODY_BYTES_MAX: u32 = 1 << 30;

/// Why an envelope cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    /// Too short, or another checksum.
    Damaged,
    /// Of a format that this program does not read.
    Format { found: u32 },
}

pub(crate) fn seal(magic: &[u8; 8], format: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&format.to_le_bytes());
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), body);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// The body of an envelope at the beginning of `bytes`.
pub(crate) fn unseal<'a>(magic: &[u8; 8], format: u32, bytes: &'a [u8]) -> Result<&'a [u8], Broken> {
    let head = bytes.get(..HEAD_BYTES).filter(|head| head.starts_with(magic)).ok_or(Broken::Damaged)?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let (found, length, sum) = (word(8), word(12), word(16));
    let body = Some(length).filter(|length| *length <= BODY_BYTES_MAX);
    let body = body.and_then(|length| bytes.get(HEAD_BYTES..HEAD_BYTES + length as usize));
    let body = body.ok_or(Broken::Damaged)?;
    if crc32c::crc32c_append(crc32c::crc32c(&head[..16]), body) != sum {
        return Err(Broken::Damaged);
    }
    if found != format { Err(Broken::Format { found }) } else { Ok(body) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_read_as_it_was_sealed_and_any_flipped_bit_is_noticed() {
        let bytes = seal(b"envelope", 1, b"body");
        assert_eq!(unseal(b"envelope", 1, &bytes), Ok(&b"body"[..]));
        assert_eq!(unseal(b"envelope", 2, &bytes), Err(Broken::Format { found: 1 }));
        assert_eq!(unseal(b"another.", 1, &bytes), Err(Broken::Damaged));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 16;
            assert_eq!(unseal(b"envelope", 1, &bad), Err(Broken::Damaged));
            assert_eq!(unseal(b"envelope", 1, &bytes[..at]), Err(Broken::Damaged));
        }
    }
}
