//! Which partition of a table that is divided by `HASH` a row is of. The hashes of keys are PostgreSQL's, so a row is in the
//! partition of the same remainder as there.
//!
//! A key's hash is that of Bob Jenkins' `lookup3` with a seed; hashes of several keys are combined from the first one on, and
//! null keys are left out. Whole numbers of all widths have one hash, as have dates and moments, which are counts.

use crate::error::{SqlResult, SqlState};
use crate::{DataType, Datum, SqlError};

/// Name of the function of [`Function::HashPartition`](crate::expr::Function::HashPartition) in conditions of partitions.
pub const FUNCTION: &str = "meridian_hash_partition";

/// What hashes of partition keys begin with.
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Whether keys of a type can be hashed.
pub fn takes(data_type: DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Boolean
            | T::SmallInt
            | T::Integer
            | T::BigInt
            | T::Text
            | T::Varchar { .. }
            | T::Char { .. }
            | T::Date
            | T::Timestamp
            | T::TimestampTz
            | T::Time
            | T::Uuid
            | T::Bytea
    )
}

/// Whether a partition takes in a row: `[modulus, remainder, key, …]`. It is never null.
pub(crate) fn call(arguments: &[Datum]) -> SqlResult<Datum> {
    let refused = || SqlError::new(SqlState::UNDEFINED_FUNCTION, "a hash partition has a modulus and keys");
    let [Datum::Int(modulus), Datum::Int(remainder), keys @ ..] = arguments else { return Err(refused()) };
    let (Ok(modulus), Ok(remainder)) = (u64::try_from(*modulus), u64::try_from(*remainder)) else {
        return Err(refused());
    };
    let rest = row_hash(keys)?.checked_rem(modulus).ok_or_else(refused)?;
    Ok(Datum::Bool(rest == remainder))
}

/// The hash of a row's keys. Errors: 42883 for a value of a type that [`takes`] refuses.
fn row_hash(keys: &[Datum]) -> SqlResult<u64> {
    let mut all = 0u64;
    for key in keys {
        let hash = match key {
            Datum::Null => continue,
            Datum::Bool(is_true) => of_number((*is_true).into()),
            Datum::Int(number) | Datum::Timestamp(number) | Datum::Time(number) => of_number(*number),
            Datum::Date(day) => of_number((*day).into()),
            Datum::Text(text) => of_bytes(text.as_bytes()),
            Datum::Bytes(bytes) => of_bytes(bytes),
            Datum::Uuid(bytes) => of_bytes(bytes),
            other => {
                let told = format!("values of type {} have no hash for partitions", other.kind());
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, told));
            }
        };
        let added = hash.wrapping_add(0x49A0_F4DD_15E5_A8E3).wrapping_add(all << 54).wrapping_add(all >> 7);
        all ^= added;
    }
    Ok(all)
}

/// The hash of a number, which is the same for all widths that it fits.
fn of_number(number: i64) -> u64 {
    let (low, high) = (number as u32, (number >> 32) as u32);
    let folded = low ^ if number < 0 { !high } else { high };
    let words = Words::begin(4);
    Words { a: words.a.wrapping_add(folded), ..words }.hash()
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let mut words = Words::begin(bytes.len());
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        words = words.plus(chunk).mixed();
    }
    // The lowest byte of the third word is left to the length.
    let rest = chunks.remainder();
    let (first, third) = rest.split_at(rest.len().min(8));
    let mut last = [0u8; 12];
    last[..first.len()].copy_from_slice(first);
    last[9..9 + third.len()].copy_from_slice(third);
    words.plus(&last).hash()
}

/// The state of a hash.
#[derive(Clone, Copy)]
struct Words {
    a: u32,
    b: u32,
    c: u32,
}

impl Words {
    /// Of a value of so many bytes.
    fn begin(length: usize) -> Words {
        let start = 0x9E37_79B9_u32.wrapping_add(length as u32).wrapping_add(3_923_095);
        let (high, low) = ((SEED >> 32) as u32, SEED as u32);
        Words { a: start.wrapping_add(high), b: start.wrapping_add(low), c: start }.mixed()
    }

    /// With twelve bytes added.
    fn plus(self, bytes: &[u8]) -> Words {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Words {
            a: self.a.wrapping_add(word(0)),
            b: self.b.wrapping_add(word(4)),
            c: self.c.wrapping_add(word(8)),
        }
    }

    fn mixed(self) -> Words {
        let Words { mut a, mut b, mut c } = self;
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        Words { a, b, c }
    }

    fn hash(self) -> u64 {
        let Words { mut a, mut b, mut c } = self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        (u64::from(b) << 32) | u64::from(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_postgresql() {
        for (number, wanted) in [
            (7, 1_708_571_371_176_205_364_i64),
            (-7, -7_298_374_200_968_567_817),
            (1_000_000_000_000, -3_183_190_251_791_293_774),
            (-1_000_000_000_000, 7_187_442_019_279_509_913),
        ] {
            assert_eq!(of_number(number), wanted as u64, "{number}");
        }
        for (text, wanted) in [
            ("", -5_700_645_584_453_517_373_i64),
            ("abc", 3_628_778_498_291_917_250),
            ("123456789012", 7_684_977_364_204_133_850),
            ("12345678901234567890x", -2_787_159_329_079_515_586),
            ("hello world, this is long", -4_983_889_960_940_629_687),
        ] {
            assert_eq!(of_bytes(text.as_bytes()), wanted as u64, "{text}");
        }
    }

    #[test]
    fn null_keys_are_left_out_and_others_are_of_one_remainder() {
        assert_eq!(row_hash(&[Datum::Null, Datum::Null]), Ok(0));
        let one = row_hash(&[Datum::Int(7), Datum::Null]).unwrap();
        assert_eq!(row_hash(&[Datum::Null, Datum::Int(7)]), Ok(one));
        let taken = |remainder| call(&[Datum::Int(5), Datum::Int(remainder), Datum::text("x")]).unwrap();
        assert_eq!((0..5).filter(|rest| taken(*rest) == Datum::Bool(true)).count(), 1);
        assert!(call(&[Datum::Int(0), Datum::Int(0), Datum::Int(1)]).is_err());
        assert!(row_hash(&[Datum::Float(1.0)]).is_err());
    }
}
