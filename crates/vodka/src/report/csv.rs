//! One line a transaction, a query, an answer to a freshness query, a probe. Times are in ms.

use crate::figures::Run;
use crate::run::Raw;
use std::fmt::Write;

pub fn add(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("strings grow");
}

/// A field that may hold commas, quotes or line ends.
pub fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"").replace('\n', " ")),
        false => text.into(),
    }
}

/// Names and order of BenchmarkSQL's result.csv, which the original tool writes.
pub fn transactions(raw: &Raw) -> String {
    let mut out = "run,elapsed,latency,dblatency,ttype,rbk,dskipped,error\n".to_string();
    for line in &raw.transactions {
        add(
            &mut out,
            format_args!(
                "0,{},{:.3},{:.3},{},{},{},{}\n",
                line.elapsed_ms,
                line.latency_ms,
                line.latency_ms,
                line.kind.name().to_uppercase(),
                u8::from(line.rolled_back),
                line.skipped,
                quoted(&line.error)
            ),
        );
    }
    out
}

pub fn queries(raw: &Raw) -> String {
    let mut out = "query,stream,elapsed,latency,rows,orders,order_line,delivered,received,staleness_ms,\
                   coordination_ms,wait_ms,error\n"
        .to_string();
    for line in &raw.queries {
        let seen = line.visibility.map_or(",,".to_string(), |f| {
            format!("{:.3},{:.3},{:.3}", f.staleness_ms, f.coordination_ms, f.wait_ms)
        });
        let s = &line.sizes;
        add(
            &mut out,
            format_args!(
                "Q{},{},{},{:.3},{},{},{},{},{},{seen},{}\n",
                line.number,
                line.stream,
                line.elapsed_ms,
                line.latency_ms,
                line.rows,
                s.orders,
                s.lines,
                s.delivered,
                s.received,
                quoted(&line.error)
            ),
        );
    }
    out
}

pub fn freshness(raw: &Raw) -> String {
    let mut out =
        "query,elapsed,latency,rows,freshness_ms,lower_bound,stale_rows,missing_rows,missing_age_ms,\
                   hattrick_ms,version_records,version_bytes\n"
            .to_string();
    for line in &raw.freshness {
        let (r, ms) = (&line.reading, |us: i64| us as f64 / 1000.0);
        add(
            &mut out,
            format_args!(
                "{},{},{:.3},{},{:.3},{},{},{},{:.3},{:.3},{},{}\n",
                line.query,
                line.elapsed_ms,
                line.latency_ms,
                line.rows,
                ms(r.freshness_us),
                u8::from(r.is_lower_bound),
                r.stale_rows,
                r.missing_rows,
                ms(r.missing_age_us),
                ms(r.hattrick_us),
                line.versions,
                line.version_bytes
            ),
        );
    }
    out
}

/// Answers that read `vodka_freshness`.
pub fn hattrick(raw: &Raw) -> String {
    let mut out = "elapsed,latency,terminals,freshness_ms,unseen_transactions\n".to_string();
    for line in &raw.marks {
        let freshness_ms = line.reading.freshness_us as f64 / 1000.0;
        add(
            &mut out,
            format_args!(
                "{},{:.3},{},{freshness_ms:.3},{}\n",
                line.elapsed_ms, line.latency_ms, line.terminals, line.reading.unseen
            ),
        );
    }
    out
}

/// One line a query at each instant at which plans were read; that of the end has no instant.
pub fn cardinality(run: &Run) -> String {
    let mut out = "at_s,query,orders,order_line,error,note\n".to_string();
    for at in &run.analysis.cardinality_during {
        let (s, at_s) = (&at.sizes, at.at_s);
        for (query, error) in &at.errors {
            add(&mut out, format_args!("{at_s:.1},{query},{},{},{error:.6},\n", s.orders, s.lines));
        }
        for (query, note) in &at.notes {
            add(&mut out, format_args!("{at_s:.1},{query},{},{},,{}\n", s.orders, s.lines, quoted(note)));
        }
    }
    let s = &run.analysis.sizes_last;
    for query in &run.analysis.queries {
        let error = query.cardinality_error.map_or(String::new(), |error| format!("{error:.6}"));
        let note = quoted(&query.cardinality_note);
        add(&mut out, format_args!(",{},{},{},{error},{note}\n", query.name, s.orders, s.lines));
    }
    out
}

/// One line a pair of terminals and streams.
pub fn frontier(run: &Run) -> String {
    let mut out = "terminals,streams,tps,queries_per_hour,freshness_p99_ms,broken_streams,failed_queries,\
                   on_envelope\n"
        .to_string();
    let frontier = &run.throughput.frontier;
    for p in &frontier.points {
        let freshness = p.freshness_p99_ms.map_or(String::new(), |ms| format!("{ms:.3}"));
        add(
            &mut out,
            format_args!(
                "{},{},{:.3},{:.3},{freshness},{},{},{}\n",
                p.terminals,
                p.streams,
                p.tps,
                p.queries_per_hour,
                p.broken_streams,
                p.failed_queries,
                u8::from(frontier.is_on_envelope(p))
            ),
        );
    }
    out
}

pub fn sync(raw: &Raw) -> String {
    let mut out = "elapsed,partitions,last_write_ms,all_partitions_ms,error_ms\n".to_string();
    for line in &raw.sync {
        let found = line.probe.as_ref().map_or(",,".to_string(), |p| {
            format!("{:.3},{:.3},{:.3}", p.last_write_ms, p.all_partitions_ms, p.error_ms)
        });
        add(&mut out, format_args!("{},{},{found}\n", line.elapsed_ms, line.partitions));
    }
    out
}
