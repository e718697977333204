//! What a node has in the end, compared with what clients were told.

use super::load::{ACCOUNTS, BALANCE};
use crate::demo::audit::{Audit, Ledger, PaymentKey};
use anyhow::{Context, anyhow};
use bench::server::{Server, explain};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::{Client, SimpleQueryMessage};

/// What one node has.
pub struct Found {
    pub node: String,
    pub audit: Audit,
    /// Accounts whose balance is not what the transfers come to.
    pub wrong_balances: usize,
}

/// An account: its region's place among the names, and its number.
type Account = (usize, i64);

/// Asks a node for everything. Errors: it does not answer, or not what was asked for.
pub async fn ask(ledger: &Ledger, node: &str, url: &str, names: &[String]) -> anyhow::Result<Found> {
    let client = Server::reach(url, None).await?.connect().await?;
    let place = |name: &str| {
        names.iter().position(|known| known == name).ok_or_else(|| anyhow!("node {node}: no region {name}"))
    };
    let mut transfers: BTreeSet<PaymentKey> = BTreeSet::new();
    let mut expected: BTreeMap<Account, i64> = BTreeMap::new();
    for region in 0..names.len() {
        (0..ACCOUNTS).for_each(|id| _ = expected.insert((region, id), BALANCE));
    }
    // Both at one cut.
    client.batch_execute("BEGIN").await.map_err(explain)?;
    for row in
        rows(&client, "SELECT region, id, account, to_region, to_account, amount FROM transfers").await?
    {
        let [region, id, account, to_region, to_account, amount] = &row[..] else {
            return Err(anyhow!("node {node}: a transfer of {} columns", row.len()));
        };
        let (from, to, amount) = (place(region)?, place(to_region)?, amount.parse::<i64>()?);
        transfers.insert((from as i32, id.parse()?));
        *expected.entry((from, account.parse()?)).or_default() -= amount;
        *expected.entry((to, to_account.parse()?)).or_default() += amount;
    }
    let mut balances: BTreeMap<Account, i64> = BTreeMap::new();
    for row in rows(&client, "SELECT region, id, balance FROM accounts").await? {
        let [region, id, balance] = &row[..] else {
            return Err(anyhow!("node {node}: an account of {} columns", row.len()));
        };
        balances.insert((place(region)?, id.parse()?), balance.parse()?);
    }
    client.batch_execute("COMMIT").await.map_err(explain)?;
    Ok(Found {
        node: node.to_string(),
        audit: ledger.compare(&transfers),
        wrong_balances: different(&expected, &balances),
    })
}

fn different(expected: &BTreeMap<Account, i64>, found: &BTreeMap<Account, i64>) -> usize {
    let accounts: BTreeSet<&Account> = expected.keys().chain(found.keys()).collect();
    accounts.into_iter().filter(|account| expected.get(account) != found.get(account)).count()
}

async fn rows(client: &Client, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let messages = client.simple_query(sql).await.map_err(explain).context(sql.to_string())?;
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|n| row.get(n).unwrap_or_default().to_string()).collect())
        }
        _ => None,
    };
    Ok(messages.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_is_missing_or_has_another_balance_is_wrong() {
        let expected = BTreeMap::from([((0, 0), 10), ((0, 1), 20), ((1, 0), 30)]);
        let found = BTreeMap::from([((0, 0), 10), ((0, 1), 21), ((2, 0), 5)]);
        assert_eq!(different(&expected, &found), 3);
        assert_eq!(different(&expected, &expected), 0);
    }
}
