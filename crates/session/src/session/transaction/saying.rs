//! What a transaction says when it commits: channels that it listens to or leaves, and messages.

use crate::notifications::{Said, WAITING_BYTES_MAX, full};
use analytics::RowsMemory;
use base::error::SqlResult;
use std::collections::BTreeSet;

/// What is said takes beside its text: an entry of the list, one of the set, and what shares the text.
const ENTRY_BYTES: usize = 192;

/// All that was said, in its order. KEEPS: a message stands in it once, as its listeners will get it; what stands in it is
/// counted.
#[derive(Default)]
pub struct Saying {
    all: Vec<Said>,
    messages: BTreeSet<Said>,
    /// What a listener's mailbox would hold of it.
    bytes: usize,
}

impl Saying {
    pub(in crate::session) fn all(&self) -> &[Said] {
        &self.all
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Errors: 54000 for more than a mailbox takes, 53200.
    pub(super) fn add(&mut self, said: Said, memory: Option<&RowsMemory>) -> SqlResult<()> {
        if self.messages.contains(&said) {
            return Ok(());
        }
        let bytes = said.bytes();
        if self.bytes + bytes > WAITING_BYTES_MAX {
            return Err(full()
                .detail(format!("A transaction may say {} MiB until it ends.", WAITING_BYTES_MAX >> 20))
                .hint("Commit between messages, or say less in each."));
        }
        if let Some(memory) = memory {
            memory.grow(ENTRY_BYTES + bytes)?;
        }
        self.bytes += bytes;
        if matches!(said, Said::Notify(..)) {
            self.messages.insert(said.clone());
        }
        self.all.push(said);
        Ok(())
    }

    /// Forgets what was said since there was so much of it.
    pub(super) fn truncate(&mut self, len: usize, memory: Option<&RowsMemory>) {
        for said in self.all.drain(len.min(self.all.len())..) {
            self.messages.remove(&said);
            self.bytes -= said.bytes();
            if let Some(memory) = memory {
                memory.shrink(ENTRY_BYTES + said.bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SqlState;

    fn notify(payload: &str) -> Said {
        Said::notify("c".into(), payload.into()).unwrap()
    }

    #[test]
    fn a_message_is_said_once_and_again_after_it_was_taken_back() {
        let mut saying = Saying::default();
        let listen = Said::listen("c".into()).unwrap();
        for said in [notify("x"), listen.clone(), notify("y"), notify("x"), listen.clone()] {
            saying.add(said, None).unwrap();
        }
        assert_eq!(saying.all(), [notify("x"), listen.clone(), notify("y"), listen.clone()]);
        saying.truncate(2, None);
        saying.add(notify("y"), None).unwrap();
        assert_eq!(saying.all(), [notify("x"), listen, notify("y")]);
        saying.truncate(0, None);
        assert_eq!((saying.len(), saying.bytes), (0, 0));
    }

    #[test]
    fn what_a_transaction_says_is_bounded() {
        let mut saying = Saying::default();
        let refused = (0..).find_map(|n| saying.add(notify(&format!("{n:07999}")), None).err()).unwrap();
        assert_eq!(refused.state, SqlState(*b"54000"));
        assert!(saying.bytes <= WAITING_BYTES_MAX && WAITING_BYTES_MAX < saying.bytes + 8_100);
        for _ in 0..10 {
            saying.add(notify(&format!("{:07999}", 0)), None).expect("it was said already");
        }
        saying.truncate(1, None);
        saying.add(notify("y"), None).unwrap();
    }
}
