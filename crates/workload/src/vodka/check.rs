//! What must hold of the data at any time: TPC-C's conditions that carry over, and ours. Each is a query whose every row
//! breaks it.

use super::Vodka;
use crate::tpcc::{self, check::CONDITIONS};

/// One condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    pub name: String,
    pub violations: String,
}

/// TPC-C's 10 and 12 tie a balance to what was delivered and paid; here balances are loaded as TPC-H has them.
const NOT_CARRIED_OVER: [u32; 2] = [10, 12];

/// All conditions of a database of these sizes.
pub fn conditions(vodka: &Vodka) -> Vec<Condition> {
    let of_tpcc = CONDITIONS.iter().filter(|condition| !NOT_CARRIED_OVER.contains(&condition.number));
    let of_tpcc = of_tpcc.map(|condition| Condition {
        name: format!("TPC-C condition {}: {}", condition.number, condition.says),
        violations: renamed(condition.violations),
    });
    let (customers, undelivered) = (vodka.tpcc.customers, vodka.tpcc.first_undelivered());
    let line = "select ol_w_id, ol_d_id, ol_o_id, ol_number from vodka_order_line where";
    let received = "(case when ol_receiptdate is null then 0 else 1 end)";
    let delivered = "(case when ol_delivery_d is null then 0 else 1 end)";
    let ours = [
        (
            "a line that was received was delivered before",
            format!(
                "{line} ol_receiptdate is not null and (ol_delivery_d is null or ol_delivery_d >= ol_receiptdate)"
            ),
        ),
        (
            "OL_RETURNFLAG is null if and only if OL_RECEIPTDATE is",
            format!(
                "{line} (ol_returnflag is null and ol_receiptdate is not null) \
                 or (ol_returnflag is not null and ol_receiptdate is null)"
            ),
        ),
        (
            "OL_SHIPMODE and OL_SHIPINSTRUCT are null if and only if OL_DELIVERY_D is",
            format!(
                "{line} (ol_delivery_d is null and (ol_shipmode is not null or ol_shipinstruct is not null)) \
                 or (ol_delivery_d is not null and (ol_shipmode is null or ol_shipinstruct is null))"
            ),
        ),
        (
            "an order is received as a whole",
            "select ol_w_id, ol_d_id, ol_o_id from vodka_order_line group by ol_w_id, ol_d_id, ol_o_id \
             having count(ol_receiptdate) <> 0 and count(ol_receiptdate) <> count(*)"
                .into(),
        ),
        (
            "VER counts the updates of a line",
            format!(
                "{line} ver <> (case when ol_o_id < {undelivered} then 0 when ol_o_id <= {customers} then \
                 {delivered} + {received} else 1 + {delivered} + {received} end)"
            ),
        ),
        (
            "OL_SUPPKEY is the supplier of the item at the supplying warehouse",
            format!("{line} ol_suppkey <> (ol_supply_w_id * ol_i_id) % 10000 + 1"),
        ),
    ];
    let ours = ours.into_iter().map(|(name, violations)| Condition { name: name.into(), violations });
    of_tpcc.chain(ours).collect()
}

/// The text with our names of TPC-C's tables.
fn renamed(sql: &str) -> String {
    let tables = tpcc::Table::ALL.map(|table| table.spec().name);
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut rest = sql;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_letter(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length.max(rest.chars().next().map_or(0, char::len_utf8).min(1)));
        if tables.contains(&word) {
            out.push_str("vodka_");
        }
        out.push_str(word);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::Tpcc;

    #[test]
    fn tpccs_conditions_speak_of_our_tables() {
        assert_eq!(
            renamed("select o.x from orders o, new_order"),
            "select o.x from vodka_orders o, vodka_new_order"
        );
        assert_eq!(renamed("(orders_x, order_line)"), "(orders_x, vodka_order_line)");
        let all = conditions(&Vodka::new(Tpcc::new(1)));
        assert_eq!(all.len(), CONDITIONS.len() - 2 + 6);
        assert!(all.iter().all(|condition| condition.violations.contains("vodka_")));
    }
}
