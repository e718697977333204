//! Executed plans, read from EXPLAIN ANALYZE as JSON or as text.
//!
//! Two families of texts are understood: PostgreSQL's, with `(actual … rows=N loops=M)`, and DataFusion's, with
//! `metrics=[output_rows=N, …]`; both indent an operator's inputs below it. JSON of either has `Plans` (or, of
//! Meridian, a list of `Operators`).

use anyhow::{Context, bail};
use serde_json::Value;
use workload::vodka::cardinality::Operator;

/// Reads a plan.
///
/// # Errors
/// If there is no operator with rows in it.
pub fn parse(text: &str) -> anyhow::Result<Operator> {
    let trimmed = text.trim_start();
    let plan = if trimmed.starts_with('[') || trimmed.starts_with('{') {
        let json: Value = serde_json::from_str(trimmed).context("read the plan as JSON")?;
        from_json(&json)
    } else {
        from_text(text)
    };
    match plan {
        Some(plan) => Ok(plan),
        None => bail!("the plan has no operator with rows: {}", text.lines().next().unwrap_or_default()),
    }
}

fn from_json(json: &Value) -> Option<Operator> {
    let root = match json {
        Value::Array(list) => list.first()?,
        other => other,
    };
    // Meridian keeps what was executed beside the plan.
    if let Some(operators) = root.get("Operators").and_then(Value::as_array) {
        return operators.first().and_then(json_operator);
    }
    json_operator(root.get("Plan")?)
}

fn json_operator(node: &Value) -> Option<Operator> {
    let text = |key: &str| node.get(key).and_then(Value::as_str);
    let number = |key: &str| node.get(key).and_then(Value::as_f64);
    let details = text("Details").unwrap_or_default().to_string();
    let loops = number("Actual Loops").unwrap_or(1.0);
    let rows = match number("Actual Rows") {
        Some(rows) => rows * loops,
        None => metric(&details).unwrap_or(0.0),
    };
    let words =
        ["Filter", "Index Cond", "Hash Cond", "Join Filter", "Join Type", "Group Key", "Recheck Cond"];
    let more = words.iter().filter_map(|key| node.get(key).map(|value| format!("{key}: {value}")));
    let details = std::iter::once(details).chain(more).collect::<Vec<_>>().join("; ");
    let inputs = node.get("Plans").and_then(Value::as_array).into_iter().flatten();
    Some(Operator {
        name: text("Node Type")?.to_string(),
        relation: text("Relation Name").map(str::to_string).or_else(|| table_of(&details)),
        rows,
        is_repeated: loops > 1.0,
        inputs: inputs.filter_map(json_operator).collect(),
        details,
    })
}

/// Lines of operators, each with how far it is indented.
fn from_text(text: &str) -> Option<Operator> {
    // Meridian prints the plan first, and then what was executed.
    let body = text.split_once("Operators:").map_or(text, |(_, after)| after);
    let mut found: Vec<(usize, Operator)> = Vec::new();
    for line in body.lines() {
        let indent = line.len() - line.trim_start().len();
        let clean = line.trim_start().trim_start_matches("->").trim_start();
        let indent = if line.trim_start().starts_with("->") { indent + 2 } else { indent };
        if let Some(operator) = text_operator(clean) {
            found.push((indent, operator));
        } else if let Some((_, last)) = found.last_mut() {
            last.details = format!("{}; {clean}", last.details);
        }
    }
    let mut found = found.into_iter().peekable();
    let (indent, root) = found.next()?;
    Some(nest(root, indent, &mut found))
}

fn nest(
    mut operator: Operator,
    indent: usize,
    rest: &mut std::iter::Peekable<std::vec::IntoIter<(usize, Operator)>>,
) -> Operator {
    while let Some((below, input)) = rest.next_if(|(below, _)| *below > indent) {
        operator.inputs.push(nest(input, below, rest));
    }
    operator
}

fn text_operator(line: &str) -> Option<Operator> {
    if let Some((head, actual)) = line.split_once("(actual ") {
        let of = |key: &str| -> Option<f64> {
            let after = &actual[actual.find(key)? + key.len()..];
            after.split([' ', ')']).next()?.parse().ok()
        };
        let loops = of("loops=").unwrap_or(1.0);
        let head = head.split("  (cost").next().unwrap_or(head).trim();
        let (name, relation) = match head.split_once(" on ") {
            Some((name, relation)) => (name, relation.split_whitespace().next().map(str::to_string)),
            None => (head, None),
        };
        // "Index Scan using i on t": the index is no part of what it is.
        let name = name.split(" using ").next().unwrap_or(name).to_string();
        let (details, rows) = (head.to_string(), of("rows=")? * loops);
        return Some(Operator { name, relation, details, rows, is_repeated: loops > 1.0, inputs: vec![] });
    }
    let name = line.split([':', ',']).next()?.trim();
    if !line.contains("metrics=[") {
        return None;
    }
    Some(Operator {
        name: name.to_string(),
        relation: table_of(line),
        rows: metric(line).unwrap_or(0.0),
        details: line.to_string(),
        ..Operator::default()
    })
}

/// `output_rows=1,234` or `output_rows=12.3 K`.
fn metric(details: &str) -> Option<f64> {
    let after = &details[details.find("output_rows=")? + "output_rows=".len()..];
    let word = after.split([',', ']']).next()?.trim();
    let (number, unit) = word.split_once(' ').unwrap_or((word, ""));
    let times = match unit {
        "" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "B" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * times)
}

fn table_of(details: &str) -> Option<String> {
    let after = &details[details.find("table=")? + "table=".len()..];
    after.split([',', ' ', ']']).next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = " Sort  (cost=10.0..11.0 rows=5 width=8) (actual rows=5 loops=1)
   Sort Key: n_name
   ->  HashAggregate  (cost=1.0..2.0 rows=5 width=8) (actual time=1.0..2.0 rows=5 loops=1)
         Group Key: n_name
         ->  Nested Loop  (cost=0.0..1.0 rows=1 width=4) (actual rows=700 loops=1)
               ->  Seq Scan on vodka_order_line l1  (cost=0.0..1.0 rows=1 width=4) (actual rows=700 loops=1)
                     Filter: (ol_delivery_d < 'x'::timestamp)
               ->  Index Scan using vodka_orders_pkey on vodka_orders  (cost=0.0..1.0 rows=1 width=4) (actual rows=1 loops=700)
 Execution Time: 1.0 ms";
    const JSON: &str = r#"[{"Plan": {"Node Type": "Sort", "Actual Rows": 5, "Actual Loops": 1, "Plans": [
        {"Node Type": "Aggregate", "Actual Rows": 5, "Actual Loops": 1, "Group Key": ["n_name"], "Plans": [
         {"Node Type": "Nested Loop", "Actual Rows": 700, "Actual Loops": 1, "Plans": [
          {"Node Type": "Seq Scan", "Relation Name": "vodka_order_line", "Actual Rows": 700, "Actual Loops": 1},
          {"Node Type": "Index Scan", "Relation Name": "vodka_orders", "Actual Rows": 1, "Actual Loops": 700}]}]}]}}]"#;

    fn rows(plan: &Operator) -> Vec<f64> {
        std::iter::once(plan.rows).chain(plan.inputs.iter().flat_map(rows)).collect()
    }

    #[test]
    fn text_and_json_of_one_plan_say_the_same() {
        let (text, json) = (parse(TEXT).unwrap(), parse(JSON).unwrap());
        assert_eq!(rows(&text), [5.0, 5.0, 700.0, 700.0, 700.0]);
        assert_eq!(rows(&text), rows(&json));
        let loops = &text.inputs[0].inputs[0];
        assert_eq!(loops.inputs[0].relation.as_deref(), Some("vodka_order_line"));
        assert!(loops.inputs[0].details.contains("ol_delivery_d"));
        assert!(loops.inputs[1].is_repeated && loops.inputs[1].name == "Index Scan");
        assert!(text.inputs[0].details.contains("Group Key: n_name"));
    }

    #[test]
    fn datafusions_metrics_are_read_after_the_plan_that_was_executed() {
        let text = " Query over columns
   ProjectionExec: expr=[b@0]
     ColumnScan: table=t, columns=[b]
 Operators:
   ProjectionExec: expr=[b@0 as b], metrics=[output_rows=2, elapsed_compute=9.01µs]
     AggregateExec: mode=Partial, gby=[b@0 as b], metrics=[output_rows=12.5 K, reduction_factor=100% (2/2)]
       ColumnScan: table=vodka_orders, columns=[b], filters=[a@0 < 5], metrics=[output_rows=7, x=1]
 Execution time: 4.878 ms";
        let plan = parse(text).unwrap();
        assert_eq!(rows(&plan), [2.0, 12_500.0, 7.0]);
        assert_eq!(plan.inputs[0].inputs[0].relation.as_deref(), Some("vodka_orders"));
        let json = r#"[{"Plan": {"Node Type": "Query"}, "Operators": [{"Node Type": "FilterExec",
            "Details": "x, metrics=[output_rows=3, y=1]", "Plans": [{"Node Type": "ColumnScan",
            "Details": "table=t, metrics=[output_rows=9]"}]}]}]"#;
        assert_eq!(rows(&parse(json).unwrap()), [3.0, 9.0]);
    }

    #[test]
    fn what_is_no_plan_is_refused() {
        assert!(parse("Update l (one-shot)\n Rows: 3").is_err());
        assert!(parse("[{\"Plan\": 3").is_err());
    }
}
