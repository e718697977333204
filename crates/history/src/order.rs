//! The order of each key's versions, recovered from values alone.
//!
//! - *List*: every list read is a beginning of the longest one, which is the order. Installed appends
//!   that nobody saw come after it, among each other in any order.
//! - *Register*: a writer that had read version v wrote a later one. Where lost updates are forbidden
//!   it is the very next one; then also a blind write comes after the chain that begins with the
//!   initial state, since nothing fits into that chain.
//!
//! The rest stays open: no edge is drawn for two versions whose order nobody observed.

use std::collections::{BTreeMap, BTreeSet};

use crate::op::{KeyId, OpId};
use crate::versions::{Before, Version, Versions};

/// See the module.
pub(crate) struct Order {
    /// For a version: those known to come after it, next ones only. Sorted, without duplicates.
    pub next: BTreeMap<(KeyId, Version), Vec<Version>>,
    /// Pairs of one key, installed by different operations, the first one earlier.
    pub overwrites: Vec<(KeyId, Version, Version)>,
    /// Register keys: pairs of versions whose order stayed open.
    pub open_pairs: u64,
    /// Keys with such pairs, and those for which a blind write makes them possible.
    pub open_keys: BTreeSet<KeyId>,
    /// The first version that two operations read and overwrote, with two of them.
    pub lost_update: Option<(KeyId, Version, [OpId; 2])>,
}

impl Order {
    /// `exact`: lost updates are forbidden (see the module).
    pub fn new(versions: &Versions<'_>, exact: bool) -> Order {
        let mut order = Order {
            next: BTreeMap::new(),
            overwrites: Vec::new(),
            open_pairs: 0,
            open_keys: BTreeSet::new(),
            lost_update: None,
        };
        let mut blind: BTreeMap<KeyId, Vec<Version>> = BTreeMap::new();
        let mut unseen: BTreeMap<KeyId, Vec<(Version, Before)>> = BTreeMap::new();
        let mut in_longest = vec![false; versions.writes.len()];
        for version in versions.longest.values().flatten() {
            in_longest[version.0 as usize] = true;
        }
        let mut lists: BTreeSet<KeyId> = versions.longest.keys().copied().collect();
        let mut overwrote: BTreeMap<(KeyId, Version), OpId> = BTreeMap::new();
        for op in versions.ops() {
            for install in &versions.installs[op.0 as usize] {
                let (key, version) = (install.key, install.version);
                if let Before::Read(before) = install.before {
                    let first = *overwrote.entry((key, before)).or_insert(op);
                    if first != op && order.lost_update.is_none() {
                        order.lost_update = Some((key, before, [first, op]));
                    }
                }
                match install.before {
                    _ if install.appends => {
                        lists.insert(key);
                        if !in_longest[version.0 as usize] {
                            unseen.entry(key).or_default().push((version, install.before));
                        }
                    }
                    Before::Read(before) => order.next.entry((key, before)).or_default().push(version),
                    Before::Unseen => blind.entry(key).or_default().push(version),
                }
            }
        }
        for (key, heads) in blind {
            order.place_blind(key, heads, exact);
        }
        for key in lists {
            let longest = versions.longest.get(&key).map(Vec::as_slice).unwrap_or_default();
            let unseen = unseen.remove(&key).unwrap_or_default();
            order.place_list(key, longest, unseen, exact);
        }
        for (&(key, earlier), next) in &order.next {
            if earlier == Version::INITIAL {
                continue;
            }
            let pairs = next.iter().map(|&later| (key, earlier, later));
            order.overwrites.extend(pairs.filter(|p| versions.writer(p.1) != versions.writer(p.2)));
        }
        order
    }

    /// True if `earlier` is known to come before `later`.
    pub fn precedes(&self, key: KeyId, earlier: Version, later: Version) -> bool {
        let mut open = vec![earlier];
        while let Some(version) = open.pop() {
            let next = self.next.get(&(key, version)).map(Vec::as_slice).unwrap_or_default();
            if next.contains(&later) {
                return true;
            }
            open.extend(next);
        }
        false
    }

    fn place_blind(&mut self, key: KeyId, heads: Vec<Version>, exact: bool) {
        self.open_pairs += heads.len() as u64 * (heads.len() as u64 - 1) / 2;
        self.open_keys.insert(key);
        let mut end = Version::INITIAL;
        while let Some(next) = self.next.get(&(key, end)).filter(|_| exact) {
            match next[..] {
                [only] => end = only,
                _ => return,
            }
        }
        self.next.entry((key, end)).or_default().extend(heads);
    }

    /// The chain of a list. Two appends of one operation stand side by side unless another one came
    /// between them; then the edges there and back are a cycle, as they should be.
    fn place_list(
        &mut self,
        key: KeyId,
        longest: &[Version],
        mut unseen: Vec<(Version, Before)>,
        exact: bool,
    ) {
        let mut end = Version::INITIAL;
        let mut append = |order: &mut Order, version| {
            order.next.insert((key, end), vec![version]);
            end = version;
            version
        };
        let mut last = Version::INITIAL;
        for &version in longest {
            last = append(self, version);
        }
        // Who read the whole list before appending comes first; only a lost update has two of them.
        let follows_end = |&(_, before): &(Version, Before)| exact && before == Before::Read(last);
        if let Some(at) = unseen.iter().position(follows_end) {
            append(self, unseen.remove(at).0);
        }
        if !unseen.is_empty() {
            self.next.insert((key, end), unseen.into_iter().map(|(version, _)| version).collect());
        }
    }
}
