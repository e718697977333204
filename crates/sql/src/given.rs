//! What sequences have given to a session: `currval` and `lastval`.
//!
//! Values are made where expressions are evaluated, which knows nothing of sessions. So a session's statements run within
//! its values: whatever a thread evaluates for it notes them here.

use crate::generators::Draw;
use base::error::SqlResult;
use base::zone::Zone;
use base::{SqlError, SqlState, TableId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// The values of one session.
#[derive(Default)]
pub struct GivenValues(Mutex<Given>);

#[derive(Default)]
struct Given {
    values: BTreeMap<TableId, i64>,
    /// The sequence that has given the last value.
    last: Option<TableId>,
    /// The last draw of the session that other nodes did not know of.
    untold: Draw,
}

thread_local! {
    /// Of the session that this thread evaluates something for.
    static OF_SESSION: RefCell<Option<Arc<GivenValues>>> = const { RefCell::new(None) };
}

impl GivenValues {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sequence has given a value.
    fn note(&self, sequence: TableId, value: i64) {
        let mut given = self.given();
        given.values.insert(sequence, value);
        given.last = Some(sequence);
    }

    /// What it has given is told to other nodes with this draw.
    pub(crate) fn note_untold(&self, draw: Draw) {
        let mut given = self.given();
        given.untold = given.untold.max(draw);
    }

    /// Up to which draw the others have to know what was given, before the session's client does.
    pub fn untold(&self) -> Draw {
        self.given().untold
    }

    /// `setval` has said what a sequence gave last.
    pub fn set(&self, sequence: TableId, value: i64) {
        self.given().values.insert(sequence, value);
    }

    /// The last value of a sequence. Errors: 55000 if it has given none to this session.
    pub fn current(&self, sequence: TableId, name: &str) -> SqlResult<i64> {
        self.given().values.get(&sequence).copied().ok_or_else(|| {
            undefined(&format!("currval of sequence \"{name}\" is not yet defined in this session"))
        })
    }

    /// The last value of the sequence that was asked last; `setval` may have said another one since. Errors: 55000 if
    /// none was asked.
    pub fn last(&self) -> SqlResult<i64> {
        let given = self.given();
        let value = given.last.and_then(|sequence| given.values.get(&sequence).copied());
        value.ok_or_else(|| undefined("lastval is not yet defined in this session"))
    }
}

fn undefined(message: &str) -> SqlError {
    SqlError::new(SqlState(*b"55000"), message)
}

/// Notes a value for the session that this thread evaluates for, and the draw, if others do not know of it.
pub(crate) fn note(sequence: TableId, value: i64, untold: Option<Draw>) {
    OF_SESSION.with_borrow(|session| {
        if let Some(session) = session {
            session.note(sequence, value);
            if let Some(draw) = untold {
                session.note_untold(draw);
            }
        }
    });
}

/// Asks the values of the session that this thread evaluates for. Errors: 55000 also where it evaluates for none.
pub(crate) fn ask(ask: impl FnOnce(&GivenValues) -> SqlResult<i64>) -> SqlResult<i64> {
    OF_SESSION.with_borrow(|session| match session {
        Some(session) => ask(session),
        None => ask(&GivenValues::default()),
    })
}

/// Evaluates something for a session.
pub fn within<T>(session: &Arc<GivenValues>, work: impl FnOnce() -> T) -> T {
    struct Back(Option<Arc<GivenValues>>);
    impl Drop for Back {
        fn drop(&mut self) {
            OF_SESSION.set(self.0.take());
        }
    }
    let _back = Back(OF_SESSION.replace(Some(session.clone())));
    work()
}

/// The work, evaluated for this thread's session on whatever thread does it.
pub(crate) fn carried<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let session = OF_SESSION.with_borrow(Clone::clone);
    move || match session {
        Some(session) => within(&session, work),
        None => work(),
    }
}

/// A future whose every step is evaluated for a session, in its time zone.
pub struct Within<F> {
    session: Arc<GivenValues>,
    zone: Zone,
    future: F,
}

impl<F: Future + Unpin> Within<F> {
    pub fn new(session: Arc<GivenValues>, zone: Zone, future: F) -> Within<F> {
        Within { session, zone, future }
    }
}

impl<F: Future + Unpin> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        let future = &mut this.future;
        within(&this.session, || crate::zones::within(this.zone, || Pin::new(future).poll(context)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_its_own_values() {
        let [a, b] = [(); 2].map(|()| Arc::new(GivenValues::default()));
        within(&a, || {
            note(TableId(1), 7, None);
            within(&b, || note(TableId(1), 9, None));
            note(TableId(2), 8, None);
        });
        note(TableId(1), 10, None);
        assert_eq!((a.current(TableId(1), "s").unwrap(), a.last().unwrap()), (7, 8));
        assert_eq!((b.current(TableId(1), "s").unwrap(), b.last().unwrap()), (9, 9));
        assert_eq!(b.current(TableId(2), "s").unwrap_err().state, SqlState(*b"55000"));
        a.set(TableId(1), 70);
        a.set(TableId(2), 80);
        assert_eq!(a.last().unwrap(), 80, "of the sequence that was asked last");
        assert!(ask(GivenValues::last).is_err());
    }
}
