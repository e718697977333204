//! The time zone of the session that a thread plans or evaluates for.
//!
//! Planning reads it and puts it into expressions as a constant ([`base::expr::Expr::zone`]): what is evaluated
//! elsewhere knows no session.

use base::DataType;
use base::Datum;
use base::error::SqlResult;
use base::zone::Zone;
use std::cell::Cell;

thread_local! {
    static OF_SESSION: Cell<Zone> = const { Cell::new(Zone::Utc) };
}

/// The session's zone; UTC where a thread works for none.
pub fn current() -> Zone {
    OF_SESSION.get()
}

/// Plans or evaluates something in a zone.
pub fn within<T>(zone: Zone, work: impl FnOnce() -> T) -> T {
    struct Back(Zone);
    impl Drop for Back {
        fn drop(&mut self) {
            OF_SESSION.set(self.0);
        }
    }
    let _back = Back(OF_SESSION.replace(zone));
    work()
}

/// Work that computes in the calling thread's time zone, whichever thread runs it.
pub(crate) fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let zone = current();
    move || within(zone, work)
}

/// A value of one type as one of another, by an explicit cast in the session's zone. Errors: those of the cast.
pub fn cast(value: Datum, from: DataType, to: DataType) -> SqlResult<Datum> {
    base::expr::cast_in(value, from, to, current())
}

/// Reads a value of a type in the session's zone. Errors: those of the type's text.
pub fn parse(text: &str, to: DataType) -> SqlResult<Datum> {
    base::text::parse_in(text, to, current())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_a_zone_leaves_the_one_around_it() {
        let tokyo = Zone::named("Asia/Tokyo").expect("a zone");
        let there = within(tokyo, || {
            let work = carried(current);
            assert_eq!(within(Zone::Fixed(60), current), Zone::Fixed(60));
            std::thread::scope(|threads| threads.spawn(|| (current(), work())).join().expect("it ends"))
        });
        assert_eq!((there, current()), ((Zone::Utc, tokyo), Zone::Utc));
    }
}
