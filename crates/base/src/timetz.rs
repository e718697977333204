//! Times of day with an offset from UTC: PostgreSQL's `timetz`.

mod parts;

use crate::error::{SqlError, SqlResult};
use crate::zone::Zone;
use serde::{Deserialize, Serialize};

const US_PER_SECOND: i64 = 1_000_000;
const US_PER_DAY: i64 = 86_400 * US_PER_SECOND;
/// Bits of the offset in a packed value, and what is added to it so that it is not negative.
const OFFSET_BITS: u32 = 17;
const OFFSET_ZERO: i64 = 1 << 16;

/// A time of day and how many seconds its clocks are ahead of UTC, less than 16 hours. Ordered as in PostgreSQL: by what the
/// time is in UTC, then by the offset, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimeTz(i64);

impl TimeTz {
    /// Of µs since midnight, at most a day, and seconds ahead of UTC.
    pub fn new(us: i64, offset_s: i32) -> TimeTz {
        debug_assert!((0..=US_PER_DAY).contains(&us) && offset_s.abs() < 1 << 16);
        let behind_s = -i64::from(offset_s);
        TimeTz((us + behind_s * US_PER_SECOND) << OFFSET_BITS | (behind_s + OFFSET_ZERO))
    }
    /// A number in the order of these times.
    pub fn packed(self) -> i64 {
        self.0
    }
    /// See [`TimeTz::packed`]; a number that is none is some time.
    pub fn of_packed(packed: i64) -> TimeTz {
        TimeTz(packed)
    }
    fn behind_s(self) -> i64 {
        (self.0 & ((1 << OFFSET_BITS) - 1)) - OFFSET_ZERO
    }
    /// Seconds ahead of UTC.
    pub fn offset_s(self) -> i32 {
        -self.behind_s() as i32
    }
    /// µs since midnight, as its clocks show it.
    pub fn us(self) -> i64 {
        self.us_utc() - self.behind_s() * US_PER_SECOND
    }
    /// µs since the midnight of UTC; less than none, or more than a day, where the offset leads across it.
    pub fn us_utc(self) -> i64 {
        self.0 >> OFFSET_BITS
    }
    /// So much later, around midnight if need be.
    pub fn later(self, by_us: i64) -> TimeTz {
        TimeTz::new((self.us() + by_us % US_PER_DAY).rem_euclid(US_PER_DAY), self.offset_s())
    }
    /// The same time at another offset.
    pub fn at_offset(self, offset_s: i32) -> TimeTz {
        let us = self.us_utc() + i64::from(offset_s) * US_PER_SECOND;
        TimeTz::new(us.rem_euclid(US_PER_DAY), offset_s)
    }
    /// What the clocks of a zone show at a moment, in µs since 2000-01-01 UTC.
    pub fn of_moment(us: i64, zone: Zone) -> TimeTz {
        TimeTz::new(zone.to_local(us).rem_euclid(US_PER_DAY), zone.offset_s(us))
    }
    /// What the clocks of a zone show, without a day. Errors: 0A000 for a zone whose offset depends on the day.
    pub fn of_clock(us: i64, zone: Zone) -> SqlResult<TimeTz> {
        match zone {
            Zone::Utc => Ok(TimeTz::new(us, 0)),
            Zone::Fixed(offset_s) => Ok(TimeTz::new(us, offset_s)),
            Zone::Named(_) => {
                let told = format!("a time with time zone without an offset, in time zone {zone}");
                Err(SqlError::unsupported(told).hint("Write the offset, as in 10:00+01."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{display, parse};
    use crate::{DataType, Datum};

    fn read(text: &str) -> TimeTz {
        match parse(text, DataType::TimeTz) {
            Ok(Datum::TimeTz(time)) => time,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn times_are_read_and_shown() {
        for (text, wanted) in [
            ("10:00", "10:00:00+00"),
            ("10:00 PST", "10:00:00-08"),
            ("10:00+05:30", "10:00:00+05:30"),
            ("10:00 am -08", "10:00:00-08"),
            ("2003-03-07 15:36:39 America/New_York", "15:36:39-05"),
            ("24:00+00", "24:00:00+00"),
            ("23:59:59.999999+15:59:59", "23:59:59.999999+15:59:59"),
            ("100000+01", "10:00:00+01"),
        ] {
            assert_eq!(display(&Datum::TimeTz(read(text))), wanted, "{text}");
        }
        for (text, state) in [
            ("x", "22007"),
            ("25:00+01", "22008"),
            ("10:00+17", "22009"),
            ("15:36 America/New_York", "22007"),
        ] {
            assert_eq!(parse(text, DataType::TimeTz).unwrap_err().state.to_string(), state, "{text}");
        }
    }

    #[test]
    fn the_earlier_moment_comes_first_and_then_the_greater_offset() {
        let ordered = ["00:00+15:59", "10:00+02", "09:00+01", "10:00+01", "09:00+00", "24:00-15:59"];
        assert!(ordered.map(read).is_sorted());
        for text in ordered {
            assert_eq!(TimeTz::of_packed(read(text).packed()), read(text));
        }
    }

    #[test]
    fn clocks_move_around_midnight() {
        assert_eq!(read("10:00+01").later(15 * 3_600 * US_PER_SECOND).to_string(), "01:00:00+01");
        assert_eq!(read("10:00+01").at_offset(-5 * 3_600).to_string(), "04:00:00-05");
        assert_eq!(read("10:20:30.5+01:30").part("epoch"), Ok(31830.5));
        assert_eq!(read("10:20:30.5-01:30").part("timezone_minute"), Ok(-30.0));
        assert!(read("10:00+00").part("day").is_err());
    }
}
