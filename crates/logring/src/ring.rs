//! The ring: one writer appends records, any number of readers follow, each by itself.
//!
//! A seqlock over a moving window. Let *written* be how many words the writer has announced since the ring began. It writes
//! at most `write_words` beyond that before it announces again, so a reader at word *p* has bytes that nobody touches as
//! long as `p >= max(start, written + write_words - ring_words)`. It checks that before it copies a record and again,
//! behind a fence, after it has; the writer's fence between announcing and writing makes the second look see the
//! announcement before any word that the copy may have caught.
//!
//! IN: records in the order of the log. OUT: [`Next`]. KEEPS: `start <= written <= start + ` what was appended; `start` is
//! written before `written`, and read after it; a reader that was overrun stays so until it is told where to go on.

use crate::layout::{
    FRAME_WORDS, INCARNATION_AT, LEASE_AT, Layout, NEXT_AT, OWNER_AT, Refused, START_AT, WRITTEN_AT,
};
use crate::slots::MappedSlots;
use crate::word::Word;
use base::txn::Granule;
use base::{LogPosition, Rank};
use reads::replica::published::Needs;
use reads::replica::tracker::Tracker;
use std::ops::Deref;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

#[cfg(test)]
mod tests;

/// The one that appends, with the tracker that it keeps.
pub struct Writer<M> {
    pub tracker: Tracker<MappedSlots<M>>,
    ring: Appender<M>,
}

/// Appends to the ring of a mapping; the only one that does.
#[derive(Debug)]
pub struct Appender<M> {
    words: M,
    layout: Layout,
    written: u64,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The record at this position; its bytes are in the buffer.
    Record(LogPosition),
    /// Not yet.
    Nothing,
    /// What came next is gone from the ring: it has to be read from storage ([`Reader::resume`]).
    Overrun,
}

/// One that follows.
pub struct Reader<M> {
    tracker: Tracker<MappedSlots<M>>,
    words: M,
    layout: Layout,
    incarnation: u64,
    at: u64,
    copied: Vec<u64>,
    /// What the writer may have touched beyond what it has announced.
    ahead_words: u64,
    /// Records before it come from storage.
    next: LogPosition,
    is_overrun: bool,
}

impl<W: Word, M: Deref<Target = [W]> + Clone> Writer<M> {
    /// Takes a mapping over. `incarnation`: never used before. The log ends at `end`; whatever was written before may be
    /// anywhere. Until `lease_until_ns` readers may take this writer for the writer.
    pub fn begin(
        words: M,
        layout: Layout,
        incarnation: u64,
        end: LogPosition,
        lease_until_ns: u64,
    ) -> Writer<M> {
        Layout::void(&words);
        for slot in &words[layout.slots_at()..layout.ring_at()] {
            slot.store(0, Relaxed);
        }
        words[LEASE_AT].store(lease_until_ns, Relaxed);
        let ring = Appender::begin(words.clone(), layout, end.next());
        let mut tracker = Tracker::over(MappedSlots::new(words.clone(), layout), layout.sizes);
        tracker.modified_all(end);
        tracker.publish(end);
        layout.begin(&words, incarnation);
        Writer { tracker, ring }
    }

    /// Appends the next record.
    pub fn append(&mut self, position: LogPosition, bytes: &[u8]) {
        self.ring.append(position, bytes);
    }
    /// The log goes on behind a gap: what was in the ring is not what precedes `next`.
    pub fn skip_to(&mut self, next: LogPosition) {
        self.ring.skip_to(next);
    }

    /// This writer may be taken for the writer until then.
    pub fn extend_lease(&mut self, until_ns: u64) {
        self.ring.words[LEASE_AT].store(until_ns, Release);
    }
}

impl<W: Word, M: Deref<Target = [W]>> Appender<M> {
    /// Of a mapping that is void, whose first record is `next`.
    pub(crate) fn begin(words: M, layout: Layout, next: LogPosition) -> Appender<M> {
        for at in [START_AT, WRITTEN_AT] {
            words[at].store(0, Relaxed);
        }
        words[NEXT_AT].store(next.0, Relaxed);
        Appender { words, layout, written: 0 }
    }

    /// Words announced since the ring began.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends the next record.
    pub fn append(&mut self, position: LogPosition, bytes: &[u8]) {
        let length = FRAME_WORDS + bytes.len().div_ceil(8) as u64;
        assert!(length <= self.layout.write_words, "{} bytes are no record of this ring", bytes.len());
        let ring = &self.words[self.layout.ring_at()..];
        let mask = self.layout.ring_words - 1;
        let place = |nth: u64| &ring[((self.written + nth) & mask) as usize];
        place(0).store((bytes.len() as u64) << 32 | u64::from(checksum(position, bytes)), Relaxed);
        place(1).store(position.0, Relaxed);
        let mut words = bytes.chunks_exact(8);
        let mut nth = FRAME_WORDS;
        for word in &mut words {
            place(nth).store(u64::from_le_bytes(word.try_into().expect("chunks of 8")), Relaxed);
            nth += 1;
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            place(nth).store(u64::from_le_bytes(last), Relaxed);
        }
        self.words[NEXT_AT].store(position.0 + 1, Release);
        self.announce(self.written + length);
    }

    fn announce(&mut self, written: u64) {
        self.written = written;
        self.words[WRITTEN_AT].store(written, Release);
        // Whoever sees what is written from here on sees the announcement.
        W::fence(Release);
    }

    /// The log goes on behind a gap: what was in the ring is not what precedes `next`.
    pub fn skip_to(&mut self, next: LogPosition) {
        let written = self.written + self.layout.ring_words;
        self.words[START_AT].store(written, Release);
        self.words[NEXT_AT].store(next.0, Release);
        self.announce(written);
    }
}

impl<W: Word, M: Deref<Target = [W]> + Clone> Reader<M> {
    /// Follows from what is appended from now on; what comes before, [`Reader::resume`] says.
    pub fn open(words: M) -> Result<Reader<M>, Refused> {
        let (layout, incarnation) = Layout::read(&words)?;
        let tracker = Tracker::over(MappedSlots::new(words.clone(), layout), layout.sizes);
        let ahead_words = layout.write_words;
        let (copied, next, is_overrun) = (Vec::new(), LogPosition(0), true);
        Ok(Reader { tracker, words, layout, incarnation, at: 0, copied, ahead_words, next, is_overrun })
    }

    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The mapping was made for this owner.
    pub fn check_owner(&self, owner: u64) -> Result<(), Refused> {
        let found = self.words[OWNER_AT].load(Relaxed);
        self.confirm()?;
        if found == owner { Ok(()) } else { Err(Refused::OtherOwner) }
    }

    fn check_incarnation(&self) -> Result<(), Refused> {
        match self.words[INCARNATION_AT].load(Acquire) {
            0 => Err(Refused::HalfWritten),
            found if found == self.incarnation => Ok(()),
            found => Err(Refused::OtherIncarnation { found }),
        }
    }

    /// The writer's tracker, for loads that follow; a read that uses them has to have arrived before. `now_ns`: by the
    /// clock of the writer's lease. What is loaded counts only if [`Reader::confirm`] agrees afterwards.
    pub fn tracker(&self, now_ns: u64) -> Result<&Tracker<MappedSlots<M>>, Refused> {
        self.check_incarnation()?;
        if now_ns >= self.words[LEASE_AT].load(Acquire) {
            return Err(Refused::LeaseOver);
        }
        Ok(&self.tracker)
    }

    /// What was loaded until now is of the incarnation that was opened.
    pub fn confirm(&self) -> Result<(), Refused> {
        W::fence(Acquire);
        self.check_incarnation()
    }

    /// A cut that the writer has published, and for each of these granules the last record at or before the cut that may have
    /// written there; `None`: what is published will not do ([`Tracker::fetch`]). `now_ns`: by the clock of the writer's
    /// lease, read after the reads that ask had arrived.
    pub fn fetch<'a>(
        &self,
        now_ns: u64,
        needs: Needs,
        watched: impl Iterator<Item = &'a Granule>,
    ) -> Result<Option<(Rank, Vec<LogPosition>)>, Refused> {
        let found = self.tracker(now_ns)?.fetch(needs, watched);
        self.confirm()?;
        Ok(found)
    }

    /// Goes on behind the last record that is announced. Records before this position have to come from storage.
    pub fn resume(&mut self) -> Result<LogPosition, Refused> {
        loop {
            let written = self.words[WRITTEN_AT].load(Acquire);
            let next = self.words[NEXT_AT].load(Acquire);
            W::fence(Acquire);
            if self.words[WRITTEN_AT].load(Relaxed) == written {
                self.check_incarnation()?;
                // A record that is written and not announced is before `next`, and follows in the ring: it is left out.
                (self.at, self.next, self.is_overrun) = (written, LogPosition(next), false);
                return Ok(self.next);
            }
        }
    }

    /// The word that changes with the next record, and what it shows until then: for a reader that has found nothing.
    pub fn awaited(&self) -> (&W, u64) {
        (&self.words[WRITTEN_AT], self.at)
    }

    fn is_untouched(&self, start: u64, written: u64) -> bool {
        self.at >= start && self.at + self.layout.ring_words >= written + self.ahead_words
    }

    /// The next record, into `bytes`.
    pub fn next(&mut self, bytes: &mut Vec<u8>) -> Result<Next, Refused> {
        loop {
            match self.next_in_ring(bytes)? {
                Next::Record(position) if position < self.next => {}
                other => return Ok(other),
            }
        }
    }

    fn next_in_ring(&mut self, bytes: &mut Vec<u8>) -> Result<Next, Refused> {
        self.check_incarnation()?;
        if self.is_overrun {
            return Ok(Next::Overrun);
        }
        let written = self.words[WRITTEN_AT].load(Acquire);
        let start = self.words[START_AT].load(Acquire);
        if self.at == written && self.at >= start {
            return Ok(Next::Nothing);
        }
        let overrun = |reader: &mut Reader<M>| {
            reader.is_overrun = true;
            Ok(Next::Overrun)
        };
        if !self.is_untouched(start, written) {
            return overrun(self);
        }
        let ring = &self.words[self.layout.ring_at()..];
        let mask = self.layout.ring_words - 1;
        let place = |at: u64| ring[(at & mask) as usize].load(Relaxed);
        let (frame, position) = (place(self.at), place(self.at + 1));
        let length = (frame >> 32) as usize;
        let payload_words = length.div_ceil(8) as u64;
        let is_record = FRAME_WORDS + payload_words <= self.layout.write_words;
        self.copied.clear();
        if is_record {
            let first = self.at + FRAME_WORDS;
            self.copied.extend((first..first + payload_words).map(place));
        }
        W::fence(Acquire);
        let written = self.words[WRITTEN_AT].load(Relaxed);
        let start = self.words[START_AT].load(Relaxed);
        if !self.is_untouched(start, written) {
            return overrun(self);
        }
        // Another writer would have cleared this before it touched anything.
        self.check_incarnation()?;
        let position = LogPosition(position);
        bytes.clear();
        bytes.extend(self.copied.iter().flat_map(|word| word.to_le_bytes()));
        bytes.truncate(length);
        if !is_record || checksum(position, bytes) != frame as u32 {
            return Err(Refused::Corrupt { position });
        }
        self.at += FRAME_WORDS + payload_words;
        Ok(Next::Record(position))
    }
}

fn checksum(position: LogPosition, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.0.to_le_bytes()), bytes)
}
