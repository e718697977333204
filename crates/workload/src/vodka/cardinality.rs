//! Whether operators' rows grow as the tables do.
//!
//! An operator's expected rows are those of a first execution, times the growth of the table that decides them
//! (Eq. 9 with one coefficient of 1): a scan follows its table; an equi-join follows the referencing side, a semi-join the
//! side that it keeps; groups by an order follow the orders, other groups are as many as there are values; a limit stays.
//!
//! IN: plans with rows, growths. OUT: `Err = (1/n)·Σ||C|−|Ĉ|| / Σ|C|`.
//! KEEPS: only operators of the logical query count; exchanges, buffers and partial aggregates do not. Nor does a scan under
//! a filter that a join or a limit fills while it runs, nor what lies between the two: how many rows pass before it is
//! filled depends on timing. Operators are compared if they do the same over the same tables.

use std::collections::BTreeMap;

/// One operator of an executed plan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Operator {
    pub name: String,
    pub relation: Option<String>,
    /// Conditions and keys, as the system writes them.
    pub details: String,
    /// Of all its executions.
    pub rows: f64,
    /// It was executed once per row of its sibling.
    pub is_repeated: bool,
    pub inputs: Vec<Operator>,
}

/// What decides how many rows there are. In the order of references: a later one refers to an earlier one, or is a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Grows {
    Not,
    History,
    Orders,
    NewOrders,
    Lines,
    /// Lines with a date of delivery.
    Delivered,
    /// Lines with a date of receipt.
    Received,
}

/// Rows of the tables that change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    pub history: u64,
    pub orders: u64,
    pub new_orders: u64,
    pub lines: u64,
    pub delivered: u64,
    pub received: u64,
}

impl Sizes {
    pub fn of(&self, grows: Grows) -> f64 {
        (match grows {
            Grows::Not => 1,
            Grows::History => self.history,
            Grows::Orders => self.orders,
            Grows::NewOrders => self.new_orders,
            Grows::Lines => self.lines,
            Grows::Delivered => self.delivered,
            Grows::Received => self.received,
        }) as f64
    }
    pub fn growth(&self, since: &Sizes, grows: Grows) -> f64 {
        let (now, before) = (self.of(grows), since.of(grows));
        if before > 0.0 { now / before } else { 1.0 }
    }
}

/// How far one query's rows are from what was expected.
#[derive(Clone, PartialEq, Debug)]
pub struct Deviation {
    pub error: f64,
    pub operators: usize,
    /// The operator that adds most: its name, its rows, what was expected.
    pub worst: (String, f64, f64),
    /// The plan is not that of the first execution: operators that are in one only do not count.
    pub plan_changed: bool,
}

/// An operator as it is compared.
#[derive(Clone, Debug)]
struct Counted {
    name: String,
    rows: f64,
    grows: Grows,
}

/// Compares an execution with the first; `None` if they have no operator in common.
pub fn deviation(first: &Operator, first_sizes: &Sizes, now: &Operator, sizes: &Sizes) -> Option<Deviation> {
    let (before, after) = (counted(first), counted(now));
    let mut left: BTreeMap<&str, Vec<&Counted>> = BTreeMap::new();
    for operator in before.iter().rev() {
        left.entry(&operator.name).or_default().push(operator);
    }
    let mut pairs = Vec::new();
    for operator in &after {
        // The last of the list is the first of the plan.
        if let Some(same) = left.get_mut(operator.name.as_str()).and_then(Vec::pop) {
            let expected = same.rows * sizes.growth(first_sizes, same.grows);
            pairs.push((operator, expected));
        }
    }
    let off = |(operator, expected): &(&Counted, f64)| (operator.rows - expected).abs();
    let worst = pairs.iter().max_by(|a, b| off(a).total_cmp(&off(b)))?;
    let total: f64 = pairs.iter().map(|(operator, _)| operator.rows).sum();
    let sum: f64 = pairs.iter().map(off).sum();
    let error = if total > 0.0 { sum / total / pairs.len() as f64 } else { f64::from(u8::from(sum > 0.0)) };
    Some(Deviation {
        error,
        operators: pairs.len(),
        worst: (worst.0.name.clone(), worst.0.rows, worst.1),
        plan_changed: pairs.len() < before.len() || pairs.len() < after.len(),
    })
}

fn counted(plan: &Operator) -> Vec<Counted> {
    let mut out = Vec::new();
    walk(plan, Grows::Not, &mut out);
    out
}

/// Adds an operator's line and its inputs'; says how its rows grow.
fn walk(operator: &Operator, sibling: Grows, out: &mut Vec<Counted>) -> Grows {
    let place = out.len();
    let mut grows = Grows::Not;
    let mut outer = Grows::Not;
    for (n, input) in operator.inputs.iter().enumerate() {
        let of_input = walk(input, if n == 0 { sibling } else { outer }, out);
        outer = outer.max(of_input);
        grows = if n > 0 && keeps_first(operator) { grows } else { grows.max(of_input) };
    }
    let of_own = own(operator, grows);
    let grows = if operator.is_repeated && operator.inputs.is_empty() { of_own.max(sibling) } else { of_own };
    if is_logical(operator) {
        // What it is over is a part of its name: another order of joins has other operators.
        let mut relations = Vec::new();
        below(operator, &mut relations);
        relations.sort_unstable();
        let name = format!("{} {}", operator.name, relations.join("+")).trim_end().to_string();
        out.insert(place, Counted { name, rows: operator.rows, grows });
    }
    grows
}

/// The relations at the leaves.
fn below<'a>(operator: &'a Operator, out: &mut Vec<&'a str>) {
    out.extend(operator.relation.as_deref());
    operator.inputs.iter().for_each(|input| below(input, out));
}

/// Semi- and anti-joins keep rows of their first input.
fn keeps_first(operator: &Operator) -> bool {
    let words = format!("{} {}", operator.name, operator.details).to_ascii_lowercase();
    let right =
        ["rightsemi", "rightanti", "right semi", "right anti"].iter().any(|word| words.contains(word));
    !right && ["semi", "anti"].iter().any(|word| words.contains(word))
}

fn own(operator: &Operator, of_inputs: Grows) -> Grows {
    let name = operator.name.to_ascii_lowercase();
    if let Some(relation) = &operator.relation {
        return scanned(relation, &operator.details);
    }
    if name.contains("limit") || operator.details.contains("fetch=") {
        return Grows::Not;
    }
    if name.contains("aggregate") || name.contains("group") {
        let by_order = ["o_id", "ol_o_id"].iter().any(|key| operator.details.contains(key));
        return if by_order { of_inputs.min(Grows::Orders) } else { Grows::Not };
    }
    of_inputs
}

/// What a scan's rows follow: a condition on a date that may be null leaves only rows that have it.
fn scanned(relation: &str, details: &str) -> Grows {
    let has = |column: &str| details.contains(column);
    match relation {
        "vodka_orders" => Grows::Orders,
        "vodka_new_order" => Grows::NewOrders,
        "vodka_history" => Grows::History,
        "vodka_order_line" => {
            if has("ol_receiptdate") || has("ol_returnflag") {
                Grows::Received
            } else if has("ol_delivery_d") || has("ol_shipmode") || has("ol_shipinstruct") {
                Grows::Delivered
            } else {
                Grows::Lines
            }
        }
        _ => Grows::Not,
    }
}

fn is_logical(operator: &Operator) -> bool {
    let name = operator.name.to_ascii_lowercase();
    let physical = ["gather", "materialize", "memoize", "repartition", "coalesce", "cooperative", "buffer"];
    let partial =
        name.contains("aggregate") && operator.details.to_ascii_lowercase().contains("mode=partial,");
    !(physical.iter().any(|word| name.contains(word)) || partial || depends_on_timing(operator))
}

/// Whether a scan under a filter that is filled while it runs decides the rows, and nothing above it has settled them.
fn depends_on_timing(operator: &Operator) -> bool {
    if operator.relation.is_some() {
        return operator.details.contains("DynamicFilter");
    }
    let settles = operator.name.to_ascii_lowercase().contains("join") || operator.details.contains("fetch=");
    !settles && operator.inputs.iter().any(depends_on_timing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(relation: &str, details: &str, rows: f64) -> Operator {
        let (name, relation, details) = ("Seq Scan".into(), Some(relation.into()), details.into());
        Operator { name, relation, details, rows, ..Operator::default() }
    }
    fn over(name: &str, details: &str, rows: f64, inputs: Vec<Operator>) -> Operator {
        Operator { name: name.into(), details: details.into(), rows, inputs, ..Operator::default() }
    }
    #[test]
    fn what_passes_before_a_join_has_filled_a_filter_does_not_count() {
        let plan = |scanned: f64, groups: f64| {
            let lines = scan("vodka_order_line", "filters=[DynamicFilter [ empty ]]", scanned);
            let averages = over("AggregateExec", "mode=Single, gby=[ol_i_id]", groups, vec![lines]);
            let items = scan("vodka_item", "filters=[i_brand = x]", 6.0);
            over("HashJoinExec", "mode=CollectLeft", 5.0, vec![items, averages])
        };
        let sizes = Sizes { lines: 100, ..Sizes::default() };
        let deviation = deviation(&plan(52.0, 5.0), &sizes, &plan(108_500.0, 1000.0), &sizes).unwrap();
        assert!(deviation.error == 0.0 && deviation.operators == 2, "{deviation:?}");
    }

    fn plan(scale: f64, groups: f64) -> Operator {
        let lines = scan("vodka_order_line", "Filter: ol_delivery_d < x", 700.0 * scale);
        let orders = scan("vodka_orders", "", 100.0 * scale);
        let join = over("Hash Join", "", 700.0 * scale, vec![lines, orders]);
        let exchange = over("Gather", "", 12345.0, vec![join]);
        over("Aggregate", "Group Key: n_name", groups, vec![exchange])
    }
    fn sizes(scale: u64) -> Sizes {
        Sizes { orders: 1000 * scale, lines: 9000 * scale, delivered: 7000 * scale, ..Sizes::default() }
    }

    #[test]
    fn rows_that_grow_with_their_tables_are_as_expected_and_groups_stay() {
        let same = deviation(&plan(1.0, 5.0), &sizes(1), &plan(2.0, 5.0), &sizes(2)).unwrap();
        assert!(same.error < 1e-9 && same.operators == 4 && !same.plan_changed, "{same:?}");
        // A fixed parameter: the table doubled, the rows in the window did not.
        let drifted = deviation(&plan(1.0, 5.0), &sizes(1), &plan(1.0, 5.0), &sizes(2)).unwrap();
        assert!(drifted.error > 0.2, "{drifted:?}");
        assert_eq!((drifted.worst.1, drifted.worst.2), (700.0, 1400.0));
    }

    #[test]
    fn semi_joins_keep_the_side_they_keep_and_repeated_scans_follow_what_repeats_them() {
        let lines = || scan("vodka_order_line", "", 900.0);
        let semi = over("Hash Semi Join", "", 90.0, vec![scan("vodka_orders", "", 100.0), lines()]);
        assert_eq!(walk(&semi, Grows::Not, &mut Vec::new()), Grows::Orders);
        let semi =
            over("HashJoinExec", "join_type=RightSemi", 90.0, vec![lines(), scan("vodka_orders", "", 9.0)]);
        assert_eq!(walk(&semi, Grows::Not, &mut Vec::new()), Grows::Lines);
        let inner = Operator { is_repeated: true, ..scan("vodka_customer", "", 900.0) };
        let mut out = Vec::new();
        walk(&over("Nested Loop", "", 900.0, vec![lines(), inner]), Grows::Not, &mut out);
        assert!(out.iter().all(|operator| operator.grows == Grows::Lines), "{out:?}");
    }

    #[test]
    fn operators_of_another_plan_are_left_out_and_it_is_said() {
        let other = over("Aggregate", "Group Key: n_name", 5.0, vec![scan("vodka_order_line", "", 700.0)]);
        let deviation = deviation(&plan(1.0, 5.0), &sizes(1), &other, &sizes(1)).unwrap();
        // The scan is in both; the groups are over another join.
        assert!(deviation.plan_changed && deviation.operators == 1 && deviation.error == 0.0);
    }
}
