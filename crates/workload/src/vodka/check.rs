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

/// Begins a query for lines that break a condition.
const LINE: &str = "select ol_w_id, ol_d_id, ol_o_id, ol_number from vodka_order_line where";

/// All conditions of a database of these sizes.
pub fn conditions(vodka: &Vodka) -> Vec<Condition> {
    let of_tpcc = CONDITIONS.iter().filter(|condition| !NOT_CARRIED_OVER.contains(&condition.number));
    let of_tpcc = of_tpcc.map(|condition| Condition {
        name: format!("TPC-C condition {}: {}", condition.number, condition.says),
        violations: renamed(condition.violations),
    });
    let line = LINE;
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
            "OL_SUPPKEY is the supplier of the item at the supplying warehouse",
            format!("{line} ol_suppkey <> (ol_supply_w_id * ol_i_id) % 10000 + 1"),
        ),
    ];
    let ours = ours
        .into_iter()
        .chain(of_versions(vodka))
        .map(|(name, violations)| Condition { name: name.into(), violations });
    of_tpcc.chain(ours).collect()
}

/// `ver` of every table that has it counts how often a row was updated.
fn of_versions(vodka: &Vodka) -> [(&'static str, String); 4] {
    let (customers, undelivered) = (vodka.tpcc.customers, vodka.tpcc.first_undelivered());
    let received = "(case when ol_receiptdate is null then 0 else 1 end)";
    let delivered = "(case when ol_delivery_d is null then 0 else 1 end)";
    let carried = "(case when o_carrier_id is null then 0 else 1 end)";
    [
        (
            "VER counts the updates of a line",
            format!(
                "{LINE} ver <> (case when ol_o_id < {undelivered} then 0 when ol_o_id <= {customers} then \
                 {delivered} + {received} else 1 + {delivered} + {received} end)"
            ),
        ),
        (
            "VER counts the updates of an order",
            format!(
                "select o_w_id, o_d_id, o_id from vodka_orders join (select ol_w_id, ol_d_id, ol_o_id, \
                 min{received} as received from vodka_order_line group by ol_w_id, ol_d_id, ol_o_id) l \
                 on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id where ver <> (case \
                 when o_id < {undelivered} then 0 when o_id <= {customers} then {carried} + received \
                 else 1 + {carried} + received end)"
            ),
        ),
        (
            // Loaded with one payment. A payment of a customer with bad credit updates the row twice.
            "VER counts the updates of a customer",
            "select c_w_id, c_d_id, c_id from vodka_customer where ver <> \
             (c_payment_cnt - 1) * (case when c_credit = 'BC' then 2 else 1 end) + c_delivery_cnt"
                .into(),
        ),
        (
            "VER counts the updates of a stock",
            "select s_w_id, s_i_id from vodka_stock where ver <> s_order_cnt".into(),
        ),
    ]
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
        assert_eq!(all.len(), CONDITIONS.len() - 2 + 9);
        assert!(all.iter().all(|condition| condition.violations.contains("vodka_")));
        let counted = all.iter().filter(|condition| condition.name.starts_with("VER counts")).count();
        assert_eq!(counted, 4, "of lines, orders, customers and stocks");
    }
}
