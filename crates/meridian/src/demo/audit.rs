//! Whether anything that was answered got lost. Each payment has a key of its own, its history row's: the
//! terminals note which were asked for and which were answered, and afterwards the table is asked.

use anyhow::Context;
use bench::server::{Server, explain};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use tokio_postgres::SimpleQueryMessage;

/// A history row's key: warehouse and number.
pub type PaymentKey = (i32, i64);

/// What terminals were told about their payments.
#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    answered: BTreeSet<PaymentKey>,
    unknown: BTreeSet<PaymentKey>,
}

/// What an audit found.
#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Payments that were answered.
    pub answered: usize,
    /// Answered, and not there.
    pub lost: usize,
    /// Asked for and never answered.
    pub unknown: usize,
    /// Of these, those that took effect.
    pub unknown_done: usize,
    /// There without having been asked for.
    pub invented: usize,
}

impl Ledger {
    /// A payment is about to be asked for.
    pub fn asked(&self, payment: PaymentKey) {
        self.told().unknown.insert(payment);
    }
    pub fn answered(&self, payment: PaymentKey) {
        let mut told = self.told();
        told.unknown.remove(&payment);
        told.answered.insert(payment);
    }
    /// Its client was told that it did not happen.
    pub fn refused(&self, payment: PaymentKey) {
        self.told().unknown.remove(&payment);
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.inner.lock().expect("no panic while counting")
    }

    /// Compares with what the database says; keys are at least `first`. Errors: it cannot be asked.
    pub async fn audit(&self, url: &str, first: i64) -> anyhow::Result<Audit> {
        let client = Server::reach(url, None).await?.connect().await?;
        let sql = format!("SELECT h_w_id, h_id FROM history WHERE h_id >= {first}");
        let messages = client.simple_query(&sql).await.map_err(explain).context(sql)?;
        let mut found = BTreeSet::new();
        for message in &messages {
            if let SimpleQueryMessage::Row(row) = message {
                let field = |i| row.get(i).context("a key has no nulls");
                found.insert((field(0)?.parse()?, field(1)?.parse()?));
            }
        }
        Ok(self.compare(&found))
    }

    /// Compares with what was found.
    pub fn compare(&self, found: &BTreeSet<PaymentKey>) -> Audit {
        let told = self.told();
        Audit {
            answered: told.answered.len(),
            lost: told.answered.difference(found).count(),
            unknown: told.unknown.len(),
            unknown_done: told.unknown.intersection(found).count(),
            invented: found
                .iter()
                .filter(|k| !told.answered.contains(k) && !told.unknown.contains(k))
                .count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_payment_that_is_not_there_is_lost_and_an_unknown_one_may_be_there() {
        let ledger = Ledger::default();
        (1..=6).for_each(|h| ledger.asked((1, h)));
        (1..=3).for_each(|h| ledger.answered((1, h)));
        ledger.refused((1, 6));
        let audit = ledger.compare(&BTreeSet::from([(1, 1), (1, 3), (1, 4), (2, 2)]));
        assert_eq!(audit, Audit { answered: 3, lost: 1, unknown: 2, unknown_done: 1, invented: 1 });
    }
}
