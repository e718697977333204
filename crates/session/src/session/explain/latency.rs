//! `SHOW EXPECTED LATENCY`: what the distances alone come to.

use super::super::Session;
use base::error::SqlResult;
use base::schema::Placement;
use base::{Datum, SqlError};
use sqlparser::ast;

impl Session {
    /// `SHOW EXPECTED LATENCY FOR TABLE t IN REGION r`: what the distances alone come to, by home of the
    /// row. Waiting for other transactions and the work itself come on top.
    pub(in crate::session) fn expected_latency(&self, words: &[ast::Ident]) -> SqlResult<Vec<Vec<Datum>>> {
        let [_, _, _, kind, table, _, place, region] = words else { return Err(latency_syntax()) };
        let is_word = |ident: &ast::Ident, word: &str| ident.value.eq_ignore_ascii_case(word);
        if !is_word(kind, "table") || !is_word(place, "region") {
            return Err(latency_syntax());
        }
        let catalog = self.catalog();
        let name = ast::ObjectName::from(table.clone());
        let table = sql::names::find_table(&catalog, &self.settings.search_path, &self.database.name, &name)?;
        let topology = self.cluster().topology();
        let name = sql::names::fold(region);
        let from = sql::ddl::placement::region_named(topology, &name)?;
        let ms = |ns: u64| Datum::Float(ns as f64 / base::time::MS as f64);
        let is_replicated = table.placement == Placement::Replicated;
        let homes = self.homes(table.id, &table.partitions(topology).into_iter().collect());
        let mut rows = Vec::new();
        let mut add = |operation: &str, home: &str, trips: f64, ns: u64| {
            rows.push(vec![Datum::text(operation), Datum::text(home), Datum::Float(trips), ms(ns)]);
        };
        if self.settings.merges_epochs() {
            // Until the epoch is published: the end of the farthest region's part of it is here.
            let widest = homes.iter().map(|h| topology.wan.round_trip_ns(from, *h)).max().unwrap_or(0);
            let trips = if widest > 0 { 0.5 } else { 0.0 };
            add("read of a row", "every region", trips, widest / 2);
            add("write of a row", "every region", trips, widest / 2);
        } else if is_replicated {
            let widest = homes.iter().map(|h| topology.wan.round_trip_ns(from, *h)).max().unwrap_or(0);
            add("read of a row", "replicated", 0.0, 0);
            let trips: u32 = if topology.is_replicated() { 1 } else { 2 };
            add("write of a row", "replicated", f64::from(trips), u64::from(trips) * widest);
        } else {
            for home in homes {
                let name = topology.region_name(home);
                let away = home != from;
                let ns = if away { topology.wan.round_trip_ns(from, home) } else { 0 };
                let trips = if away { 1.0 } else { 0.0 };
                // A copy here is read once the home's closed timestamp has come: one way.
                let halves: u32 = if topology.is_replicated() { 1 } else { 2 };
                let (read_trips, read_ns) = (trips * f64::from(halves) / 2.0, ns * u64::from(halves) / 2);
                add("read of a row", name, read_trips, read_ns);
                add("write of a row", name, trips, ns);
            }
        }
        Ok(rows)
    }
}

fn latency_syntax() -> SqlError {
    SqlError::new(base::SqlState::SYNTAX_ERROR, "expected SHOW EXPECTED LATENCY FOR TABLE t IN REGION r")
}
