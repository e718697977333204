//! What the clients of a case saw, in two histories: everything, and what the engine ordered.
//!
//! KEEPS: every value handed out by [`Book::fresh`] is handed out once; instants come from one clock. Clients that live in
//! different regions write into different books, so that the order of what stands in one does not depend on threads.

use super::layout::{Content, Item, Kind, Layout, Target, shelf_bounds};
use base::{RegionId, Time, Token};
use history::{History, OpId, Recorder, Seen, SessionId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The books of a case: one of clients outside of all regions, and one for each region that clients live in.
pub struct Books {
    books: Vec<SharedBook>,
}

impl Books {
    pub fn new(regions: usize, layout: &Layout) -> Books {
        let book = |nth: usize| {
            let mut book = Book { last_value: (nth as u64) << 40, ..Book::default() };
            layout.loaded().for_each(|item| book.loaded(&item));
            SharedBook(Arc::new(Mutex::new(book)))
        };
        Books { books: (0..=regions).map(book).collect() }
    }
    pub fn outside(&self) -> SharedBook {
        self.books[0].clone()
    }
    pub fn of(&self, region: RegionId) -> SharedBook {
        self.books[usize::from(region.0) + 1].clone()
    }
    /// Nobody knows what comes of operations that have not ended.
    pub fn close(&self) {
        self.books.iter().for_each(|book| book.open().close());
    }
    /// Everything, and what was ordered.
    pub fn histories(&self) -> (History, History) {
        let books: Vec<MutexGuard<Book>> = self.books.iter().map(SharedBook::open).collect();
        let all = History::merged(books.iter().map(|book| book.all.history()));
        (all, History::merged(books.iter().map(|book| book.ordered.history())))
    }
    /// How many operations clients began.
    pub fn operations(history: &History) -> usize {
        history.ops().iter().filter(|op| op.session.0 < POSSIBLE).count()
    }
    pub fn tally(&self) -> BTreeMap<&'static str, u64> {
        let mut sum = BTreeMap::new();
        for book in &self.books {
            book.open().tally.iter().for_each(|(what, n)| *sum.entry(*what).or_default() += n);
        }
        sum
    }
}

/// A book and whoever else writes into it: clients of one event loop, one after another.
#[derive(Clone)]
pub struct SharedBook(Arc<Mutex<Book>>);

impl SharedBook {
    pub fn open(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// An operation in both histories.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    all: OpId,
    ordered: Option<OpId>,
}

/// See the module.
#[derive(Default)]
pub struct Book {
    all: Recorder,
    /// Only operations that took their place in the engine's order.
    ordered: Recorder,
    last_value: u64,
    /// Tokens that sessions left for others.
    board: Vec<(Token, Entry)>,
    pub tally: BTreeMap<&'static str, u64>,
    /// Operations that were submitted and have not ended, with what they may write.
    under_way: Vec<(Entry, Writes)>,
    /// Single writes that operations which have not ended may make.
    possible: Vec<Possible>,
    possible_count: u64,
}

/// A write that an operation may make: written down, as an operation of its own, only if nobody knows what became of
/// that one. Until then it is not known which of such writes it makes.
struct Possible {
    of: OpId,
    entry: Entry,
    name: String,
    value: Option<u64>,
}

/// Sessions from this one on are of writes that are only possible.
const POSSIBLE: u64 = 1 << 32;

/// Rows, each with the value that is written or appended, or `None` if it is deleted.
pub type Writes = Vec<(Item, Option<u64>)>;

impl Book {
    /// A value that nobody else writes.
    pub fn fresh(&mut self) -> u64 {
        self.last_value += 1;
        self.last_value
    }
    pub fn loaded(&mut self, item: &Item) {
        self.all.loaded(&item.name());
        self.ordered.loaded(&item.name());
    }
    /// A session begins an operation; `ordered` if the engine is to order it.
    pub fn begin(&mut self, session: u32, now: Time, ordered: bool, sources: &[Entry]) -> Entry {
        let session = SessionId(u64::from(session));
        let all = self.all.begin(session, now.0);
        let ordered = ordered.then(|| self.ordered.begin(session, now.0));
        for source in sources {
            self.all.token(all, source.all);
            if let (Some(op), Some(from)) = (ordered, source.ordered) {
                self.ordered.token(op, from);
            }
        }
        Entry { all, ordered }
    }
    /// What a read of `target` returned.
    pub fn read(&mut self, entry: Entry, target: &Target, rows: &[(Item, Content)]) {
        let seen = |content: &Content| match content {
            Content::List(items) => Seen::List(items.clone()),
            Content::Register(0) => Seen::Initial,
            Content::Register(value) => Seen::Value(*value),
        };
        match (target.item(), target.kind) {
            (Some(item), _) => {
                assert!(rows.len() <= 1 && rows.iter().all(|(found, _)| *found == item));
                let seen = rows.first().map_or(Seen::Absent, |(_, content)| seen(content));
                self.each(entry, |recorder, op| recorder.read_seen(op, &item.name(), seen.clone()));
            }
            (None, Kind::Register) => {
                let (low, high) = shelf_bounds(target.kind, target.shelf);
                let names: Vec<(String, Seen)> = rows.iter().map(|(i, c)| (i.name(), seen(c))).collect();
                self.each(entry, |recorder, op| {
                    let rows = names.iter().map(|(name, seen)| (name.as_str(), seen.clone()));
                    recorder.scan(op, &low, Some(&high), rows);
                });
            }
            // Lists are never inserted or deleted, so a shelf of them is its rows.
            (None, Kind::List) => {
                for (item, content) in rows {
                    self.each(entry, |recorder, op| recorder.read_seen(op, &item.name(), seen(content)));
                }
            }
        }
    }
    /// Writes a register, deletes it, or appends to a list.
    pub fn write(&mut self, entry: Entry, item: &Item, value: Option<u64>) {
        let name = item.name();
        self.each(entry, |recorder, op| match (item.kind, value) {
            (Kind::List, Some(value)) => recorder.append(op, &name, value),
            (Kind::Register, Some(value)) => recorder.write(op, &name, value),
            (_, None) => recorder.delete(op, &name),
        });
    }
    /// An operation is submitted, and may take effect before its client hears of it.
    pub fn submitted(&mut self, entry: Entry, writes: Writes) {
        self.under_way.push((entry, writes));
    }
    /// An operation is submitted that may make any of these writes, each or not, before its client hears of it.
    pub fn may_write(&mut self, of: Entry, now: Time, writes: Vec<(String, Option<u64>)>) {
        for (name, value) in writes {
            self.possible_count += 1;
            // Every book begins its values elsewhere.
            let session = SessionId(POSSIBLE + self.last_value + self.possible_count);
            let (all, ordered) = (self.all.begin(session, now.0), self.ordered.begin(session, now.0));
            self.possible.push(Possible {
                of: of.all,
                entry: Entry { all, ordered: Some(ordered) },
                name,
                value,
            });
        }
    }
    fn ended(&mut self, entry: Entry, known_at: Option<Time>) {
        self.under_way.retain(|(other, _)| other.all != entry.all);
        let (own, others): (Vec<Possible>, Vec<Possible>) =
            std::mem::take(&mut self.possible).into_iter().partition(|one| one.of == entry.all);
        self.possible = others;
        for Possible { entry, name, value, .. } in own {
            match known_at {
                Some(now) => self.each(entry, |recorder, op| recorder.abort(op, now.0)),
                None => {
                    self.put(entry, &name, value);
                    self.each(entry, Recorder::unknown);
                }
            }
        }
    }
    fn close(&mut self) {
        let left: Vec<Possible> = std::mem::take(&mut self.possible);
        left.into_iter().for_each(|one| self.put(one.entry, &one.name, one.value));
        for (entry, writes) in std::mem::take(&mut self.under_way) {
            writes.iter().for_each(|(item, value)| self.write(entry, item, *value));
            self.unknown(entry);
        }
    }
    /// What was seen of a register by its name.
    pub fn see(&mut self, entry: Entry, name: &str, seen: Seen) {
        self.each(entry, |recorder, op| recorder.read_seen(op, name, seen.clone()));
    }
    /// Of the registers from one name to another (exclusive) these were seen, and no others were there.
    pub fn see_range(&mut self, entry: Entry, (low, high): (&str, &str), rows: &[(String, Seen)]) {
        self.each(entry, |recorder, op| {
            let rows = rows.iter().map(|(name, seen)| (name.as_str(), seen.clone()));
            recorder.scan(op, low, Some(high), rows);
        });
    }
    /// Writes a register by its name, or deletes it.
    pub fn put(&mut self, entry: Entry, name: &str, value: Option<u64>) {
        self.each(entry, |recorder, op| match value {
            Some(value) => recorder.write(op, name, value),
            None => recorder.delete(op, name),
        });
    }
    pub fn commit(&mut self, entry: Entry, now: Time) {
        self.ended(entry, Some(now));
        self.each(entry, |recorder, op| recorder.commit(op, now.0));
    }
    pub fn abort(&mut self, entry: Entry, now: Time) {
        self.ended(entry, Some(now));
        self.each(entry, |recorder, op| recorder.abort(op, now.0));
    }
    pub fn unknown(&mut self, entry: Entry) {
        self.ended(entry, None);
        self.each(entry, |recorder, op| recorder.unknown(op));
    }
    pub fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }
    /// Leaves a token for other sessions.
    pub fn leave(&mut self, token: Token, entry: Entry) {
        self.board.push((token, entry));
    }
    /// The token left last.
    pub fn take(&self) -> Option<(Token, Entry)> {
        self.board.last().cloned()
    }
    fn each(&mut self, entry: Entry, mut record: impl FnMut(&mut Recorder, OpId)) {
        record(&mut self.all, entry.all);
        if let Some(op) = entry.ordered {
            record(&mut self.ordered, op);
        }
    }
}
