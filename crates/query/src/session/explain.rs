//! EXPLAIN: where a statement goes, how many WAN round trips it takes, rows or columns.

use super::Session;
use super::plan::{self, Plan};
use crate::analytics;
use crate::lower::bind::Binding;
use crate::lower::keys::KeyPath;
use crate::lower::scope::ParameterTypes;
use crate::response::{Column, Response, RowStream, Rows};
use base::cut::{Consistency, CutChoice, Freshness};
use base::error::SqlResult;
use base::schema::{Placement, Table};
use base::txn::{AccessSet, Granule};
use base::{DataType, Datum, PartitionId, RegionId, SqlError, TableId};
use datafusion::sql::sqlparser::ast::{self, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A freshness report in one line, for people and programs: `name=…ms`, blank between.
pub(super) fn freshness(f: &Freshness) -> String {
    let ms = |ns: u64| ns as f64 / base::time::MS as f64;
    let delays = format!(
        "visibility_delay={:.3}ms staleness={:.3}ms coordination={:.3}ms wait={:.3}ms",
        ms(f.visibility_delay_ns()),
        ms(f.staleness_ns),
        ms(f.coordination_ns),
        ms(f.wait_ns)
    );
    match f.other_readers {
        0 => delays,
        others => format!("{delays} other_readers={others}"),
    }
}

/// Columns of `SHOW EXPECTED LATENCY`.
pub(super) fn latency_columns() -> Vec<Column> {
    vec![
        Column::new("operation", DataType::Text),
        Column::new("home", DataType::Text),
        Column::new("wan_round_trips", DataType::Integer),
        Column::new("latency_ms", DataType::Double),
    ]
}

impl Session {
    /// `SHOW EXPECTED LATENCY FOR TABLE t IN REGION r`: what the distances alone come to, by home of the
    /// row. Waiting for other transactions and the work itself come on top.
    pub(super) fn expected_latency(&self, words: &[ast::Ident]) -> SqlResult<Vec<Vec<Datum>>> {
        let [_, _, _, kind, table, _, place, region] = words else { return Err(latency_syntax()) };
        let is_word = |ident: &ast::Ident, word: &str| ident.value.eq_ignore_ascii_case(word);
        if !is_word(kind, "table") || !is_word(place, "region") {
            return Err(latency_syntax());
        }
        let catalog = self.catalog();
        let name = ast::ObjectName::from(table.clone());
        let table = crate::names::find_table(&catalog, &self.settings.search_path, &self.database, &name)?;
        let topology = self.cluster().topology();
        let name = crate::names::fold(region);
        let from = topology.region_named(&name).ok_or_else(|| {
            SqlError::new(
                base::SqlState::INVALID_PARAMETER_VALUE,
                format!("region \"{name}\" does not exist"),
            )
            .hint(format!("Regions are {}.", topology.wan.regions.join(", ")))
        })?;
        let ms = |ns: u64| Datum::Float(ns as f64 / base::time::MS as f64);
        let is_replicated = table.placement == Placement::Replicated;
        let homes = self.homes(table, &table.partitions(topology).into_iter().collect());
        let mut rows = Vec::new();
        let mut add = |operation: &str, home: &str, trips: i64, ns: u64| {
            rows.push(vec![Datum::text(operation), Datum::text(home), Datum::Int(trips), ms(ns)]);
        };
        if is_replicated {
            let widest = homes.iter().map(|h| topology.wan.round_trip_ns(from, *h)).max().unwrap_or(0);
            add("read of a row", "replicated", 0, 0);
            let trips = if topology.is_replicated() { 1 } else { 2 };
            add("write of a row", "replicated", trips, trips as u64 * widest);
        } else {
            for home in homes {
                let name = topology.region_name(home);
                let away = home != from;
                let ns = if away { topology.wan.round_trip_ns(from, home) } else { 0 };
                // A copy here is read after one way.
                let read_ns = if topology.is_replicated() { ns / 2 } else { ns };
                add("read of a row", name, i64::from(away), read_ns);
                add("write of a row", name, i64::from(away), ns);
            }
        }
        Ok(rows)
    }

    pub(super) async fn run_explain(
        &mut self,
        statement: &Statement,
        analyze: bool,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let catalog = self.catalog();
        let mut types = ParameterTypes(parameters.iter().map(super::prepared::type_of).collect());
        let plan = plan::plan(&self.context(&catalog), statement, &mut types)?;
        let mut lines = self.describe(&plan, parameters, &types).await?;
        if analyze {
            self.analyze(&plan, parameters, &mut lines).await?;
        }
        let rows = lines.into_iter().map(|line| vec![Datum::text(line)]).collect();
        let columns = Arc::new(vec![Column::new("QUERY PLAN", DataType::Text)]);
        Ok(Response::Rows(Rows { columns, stream: RowStream::values(rows), tag: "EXPLAIN" }))
    }

    async fn describe(
        &self,
        plan: &Plan,
        parameters: &[Datum],
        types: &ParameterTypes,
    ) -> SqlResult<Vec<String>> {
        let (gateway, catalog) = (&self.gateway, self.catalog());
        let topology = gateway.cluster.topology();
        // A plan with open parameters is shown with nulls in their place.
        let nulls = vec![Datum::Null; types.0.len()];
        let has_values = parameters.len() >= types.0.len();
        let values = if has_values { parameters } else { &nulls };
        let binding = Binding { parameters: values, now_us: self.now_us(), gateway, catalog: &catalog };
        let reached = |table: &Table, path: &KeyPath, reader| -> SqlResult<BTreeSet<PartitionId>> {
            if !has_values {
                return Ok(table.partitions(topology).into_iter().collect());
            }
            let reached = path.reach(table, &binding, topology, reader)?;
            Ok(reached.reaches.into_iter().flat_map(|r| r.partitions).collect())
        };
        let mut lines = Vec::new();
        match plan {
            Plan::Constant(_) => lines.push("Constants, computed here".into()),
            Plan::Rows(plan) => {
                let way = match (&plan.index, plan.path.is_point()) {
                    (Some(index), _) => format!("index {}", index.name),
                    (None, true) => "primary key".into(),
                    (None, false) => "primary key range".into(),
                };
                lines.push(format!("Read rows of {} by {way}", plan.table.name));
                lines.push(format!("  Home: {}", self.home(&plan.table)));
                let partitions = reached(&plan.table, &plan.path, Some(gateway.cluster.region()))?;
                lines.extend(self.way(&partitions, &self.homes(&plan.table, &partitions), false));
            }
            Plan::Join(plan) => {
                let way = plan.outer_index.as_ref().map_or("primary key", |i| i.name.as_str());
                lines.push(format!("Read rows of {} by {way}", plan.outer.name));
                lines.push(format!("  and for each the row of {} by primary key", plan.inner.name));
                lines.push(format!("  Home: {}, {}", self.home(&plan.outer), self.home(&plan.inner)));
                let near = Some(gateway.cluster.region());
                let partitions = reached(&plan.outer, &plan.outer_path, near)?;
                lines.extend(self.way(&partitions, &self.homes(&plan.outer, &partitions), false));
            }
            Plan::Modify(plan) => {
                let word = if plan.set.is_some() { "Update" } else { "Delete" };
                let kind = match (plan.must_read, &plan.index) {
                    (true, _) => "read at a cut, validated at commit".to_string(),
                    (false, Some((index, _))) => {
                        format!("rows found through index {}, validated at commit", index.name)
                    }
                    (false, None) => "one-shot, never a conflict abort".into(),
                };
                lines.push(format!("{word} {} ({kind})", plan.table.name));
                lines.push(format!("  Home: {}", self.home(&plan.table)));
                let partitions = reached(&plan.table, &plan.path, None)?;
                lines.extend(self.way(&partitions, &self.homes(&plan.table, &partitions), true));
            }
            Plan::Insert(plan, _) => {
                let kind = if plan.is_one_shot { "one-shot, never a conflict abort" } else { "from a query" };
                lines.push(format!("Insert into {} ({kind})", plan.table.name));
                lines.push(format!("  Home: {}", self.home(&plan.table)));
                let mut access = AccessSet::default();
                if plan.is_one_shot && has_values && plan.explains_without_effect() {
                    let rows = plan.rows(&binding)?;
                    plan.statement(&rows, &binding, topology, &mut access, false)?;
                }
                let mut partitions: BTreeSet<PartitionId> = access.by_partition.keys().copied().collect();
                let mut regions = self.homes_of(&access);
                if partitions.is_empty() {
                    partitions = plan.table.partitions(topology).into_iter().collect();
                    regions = self.homes(&plan.table, &partitions);
                }
                lines.extend(self.way(&partitions, &regions, true));
                let remote: Vec<&str> = plan
                    .table
                    .indexes
                    .iter()
                    .filter(|i| !plan.table.index_is_local(i, topology))
                    .map(|i| i.name.as_str())
                    .collect();
                if !remote.is_empty() {
                    lines.push(format!("  Unique entries homed by value: {}", remote.join(", ")));
                }
            }
            Plan::Query(plan) => {
                let (text, reads) = analytics::explain(gateway, plan, values, &self.cancel)?;
                lines.push("Query over columns".into());
                lines.extend(self.reads(&reads));
                lines.push(format!("  Cut: {}", self.cut_rule(self.usual_cut())));
                lines.extend(text.lines().map(|l| format!("  {l}")));
            }
            Plan::Rich(plan) => lines.push(plan.explained()),
            Plan::Call(plan) => {
                lines.push(format!("Call {}", plan.procedure.name()));
                if has_values {
                    let args = plan
                        .arguments
                        .iter()
                        .map(|(e, t)| t.coerce(binding.value(e)?))
                        .collect::<SqlResult<Vec<_>>>()?;
                    let access = plan.procedure.declare(&args, &catalog, topology)?;
                    let partitions = access.by_partition.keys().copied().collect();
                    lines.extend(self.way(&partitions, &self.homes_of(&access), true));
                }
            }
            Plan::Utility(statement) => lines.push(crate::ddl::first_words(statement)),
        }
        Ok(lines)
    }

    fn home(&self, table: &Table) -> String {
        let (catalog, topology) = (self.catalog(), self.cluster().topology());
        let parts = crate::ddl::placement::described(table, &catalog, topology);
        match (&table.placement, parts.as_slice()) {
            (Placement::Replicated, _) => "replicated in every partition".into(),
            (_, [(_, column), (_, map)]) => format!("by {column} ({map})"),
            (_, parts) => parts.iter().map(|(_, value)| value.as_str()).collect(),
        }
    }

    /// Where these partitions' rows of a table are ordered.
    fn homes(&self, table: &Table, partitions: &BTreeSet<PartitionId>) -> BTreeSet<RegionId> {
        let (catalog, topology) = (self.catalog(), self.cluster().topology());
        partitions.iter().map(|p| catalog.home_of(table.id, *p, topology)).collect()
    }

    /// Where what is declared is ordered.
    fn homes_of(&self, access: &AccessSet) -> BTreeSet<RegionId> {
        let (catalog, topology) = (self.catalog(), self.cluster().topology());
        let owner = |id: TableId| catalog.index(id).map_or(id, |(table, _)| table.id);
        let declared = access.by_partition.iter().flat_map(|(p, all)| all.iter().map(|a| (*p, &a.granule)));
        let home = |(partition, granule): (PartitionId, &Granule)| match granule.table() {
            Some(id) => catalog.home_of(owner(id), partition, topology),
            None => topology.region_of_partition(partition),
        };
        declared.map(home).collect()
    }

    /// Partitions, regions and the WAN between here and them.
    fn way(
        &self,
        partitions: &BTreeSet<PartitionId>,
        regions: &BTreeSet<RegionId>,
        is_write: bool,
    ) -> Vec<String> {
        let cluster = self.cluster();
        let topology = cluster.topology();
        let here = cluster.region();
        let names: Vec<&str> = regions.iter().map(|r| topology.region_name(*r)).collect();
        let is_local = regions.iter().all(|r| *r == here);
        let widest = regions.iter().map(|r| topology.wan.round_trip_ns(here, *r)).max().unwrap_or(0);
        let trips = match (is_local, is_write, regions.len()) {
            (true, ..) => "0".to_string(),
            // The copy here is read once the other region has said that it is complete.
            (false, false, _) if topology.is_replicated() => "0.5".into(),
            (false, true, _) if topology.is_replicated() => "1".into(),
            (false, false, _) => "1".into(),
            (false, true, 1) => "1 to 2".into(),
            (false, true, _) => "2".into(),
        };
        let list: Vec<String> = partitions.iter().map(|p| p.to_string()).collect();
        let mut lines = vec![
            format!("  Partitions: {} ({})", partitions.len(), list.join(" ")),
            format!("  Regions: {}", names.join(", ")),
        ];
        let copies = cluster.copies_elsewhere();
        lines.push(match is_local {
            true if is_write && copies > 0 => format!(
                "  WAN round trips: 1 (round trip {:.1} ms, until {copies} more {} it)",
                self.kth_nearest_ns(here, copies) as f64 / base::time::MS as f64,
                if copies == 1 { "region has" } else { "regions have" },
            ),
            true => "  WAN round trips: 0".into(),
            false => format!(
                "  WAN round trips: {trips} (round trip {:.1} ms)",
                widest as f64 / base::time::MS as f64
            ),
        });
        lines
    }

    /// Round trip from a region to the K-th nearest of the others that keep copies.
    fn kth_nearest_ns(&self, here: RegionId, k: usize) -> u64 {
        let topology = self.cluster().topology();
        let all = (0..topology.wan.region_count() as u16).map(RegionId);
        let others = all.filter(|region| *region != here && topology.sequencer_of(*region).is_some());
        let mut round_trips: Vec<u64> =
            others.map(|region| topology.wan.round_trip_ns(here, region)).collect();
        round_trips.sort_unstable();
        round_trips.get(k - 1).copied().unwrap_or(0)
    }

    fn reads(&self, reads: &BTreeMap<TableId, BTreeSet<PartitionId>>) -> Vec<String> {
        let catalog = self.catalog();
        let topology = self.cluster().topology();
        reads
            .iter()
            .map(|(id, partitions)| {
                let name = catalog.table(*id).map_or("?", |t| t.name.as_str());
                let homes = partitions.iter().map(|p| catalog.home_of(*id, *p, topology));
                let regions: BTreeSet<&str> = homes.map(|region| topology.region_name(region)).collect();
                let regions: Vec<&str> = regions.into_iter().collect();
                format!(
                    "  Table {name}: {} of {} partitions, regions {}",
                    partitions.len(),
                    topology.partitions.len(),
                    regions.join(", ")
                )
            })
            .collect()
    }

    /// Which rule chose the cut, and whom it waited for.
    fn cut_line(&self, f: &Freshness) -> String {
        let ms = |ns: u64| ns as f64 / base::time::MS as f64;
        let topology = self.cluster().topology();
        let chosen = self.cut_rule(f.choice);
        let last = f.last.map(|(partition, after_ns, waited_ns)| {
            let region = topology.region_name(topology.region_of_partition(partition));
            format!(
                "; {partition} ({region}) was complete last, after {:.3} ms, of which it waited {:.3} ms for what was in flight",
                ms(after_ns),
                ms(waited_ns)
            )
        });
        format!("Cut: {chosen}{}", last.unwrap_or_default())
    }

    fn cut_rule(&self, choice: CutChoice) -> String {
        let bound = self.cluster().topology().clock_bound_ns as f64 / base::time::MS as f64;
        match choice {
            CutChoice::Given => "as given to the query".into(),
            CutChoice::Clock => format!("by the clock, now + {bound:.3} ms; nobody is asked"),
            CutChoice::Calibrated => {
                "by calibration: those who order what is read are asked where their sequences end".into()
            }
            CutChoice::ClosedSet => "by calibration: partitions are asked how far they have executed".into(),
            CutChoice::Local => "what is complete here, or the session has seen".into(),
        }
    }

    /// The rule by which a query of this session chooses its cut now.
    fn usual_cut(&self) -> CutChoice {
        let topology = self.cluster().topology();
        match self.settings.consistency {
            _ if self.transaction.as_ref().is_some_and(|t| !t.is_implicit) => CutChoice::Given,
            Consistency::Session | Consistency::Stale => CutChoice::Local,
            Consistency::Rss | Consistency::Regular if topology.unbounded_clocks => CutChoice::Calibrated,
            Consistency::Regular if !topology.is_replicated() => CutChoice::ClosedSet,
            Consistency::Rss | Consistency::Regular => CutChoice::Clock,
        }
    }

    /// Who gave which partitions of the last query, if this node did not have all of them.
    fn readers(&self) -> Vec<String> {
        let (cluster, ms) = (self.cluster(), |ns: u64| ns as f64 / base::time::MS as f64);
        let topology = cluster.topology();
        let line = |source: &node::request::Source| {
            let partitions: Vec<String> = source.partitions.iter().map(PartitionId::to_string).collect();
            let (reader, opened) = (source.reader, ms(source.opened_ns));
            let region = topology.region_name(topology.region_of(reader));
            let gave = match reader == cluster.node() {
                true => "coordinator, its own columns".to_string(),
                false => format!("{} rows in {} bytes", source.rows, source.bytes),
            };
            let waited = ms(source.waited_ns);
            let partitions = partitions.join(" ");
            format!(
                "Reader {reader} ({region}): partitions {partitions}; {gave}; readable after {opened:.3} ms, waited {waited:.3} ms"
            )
        };
        self.sources.iter().map(line).collect()
    }

    /// Runs it and says what happened.
    async fn analyze(&mut self, plan: &Plan, parameters: &[Datum], lines: &mut Vec<String>) -> SqlResult<()> {
        self.is_analyzing = true;
        let outcome = self.analyze_now(plan, parameters, lines).await;
        self.is_analyzing = false;
        self.operators = None;
        outcome
    }

    async fn analyze_now(
        &mut self,
        plan: &Plan,
        parameters: &[Datum],
        lines: &mut Vec<String>,
    ) -> SqlResult<()> {
        let ms = |ns: u64| ns as f64 / base::time::MS as f64;
        self.last = None;
        self.sources.clear();
        let before = self.freshness.take();
        let start = self.cluster().now();
        let response = match plan {
            Plan::Utility(_) => return Ok(()),
            plan => Box::pin(self.run(plan, parameters)).await?,
        };
        let mut count = 0;
        if let Response::Rows(mut rows) = response {
            loop {
                let batch = rows.stream.next_rows(8192).await?;
                if batch.is_empty() {
                    break;
                }
                count += batch.len();
            }
        }
        let took = self.cluster().now().since(start);
        lines.push(format!("Rows: {count}"));
        if let Some(last) = &self.last {
            let topology = self.cluster().topology();
            let names: Vec<&str> = last.regions.iter().map(|r| topology.region_name(*r)).collect();
            lines.push(format!(
                "Transaction {} at rank {}, regions {}",
                last.txn,
                last.rank,
                names.join(", ")
            ));
            let here = self.cluster().region();
            let widest = last.regions.iter().map(|r| topology.wan.round_trip_ns(here, *r)).max().unwrap_or(0);
            if last.regions.iter().any(|r| *r != here) && widest > 0 {
                lines.push(format!("WAN round trips: {:.2}", last.latency_ns as f64 / widest as f64));
            } else {
                lines.push("WAN round trips: 0".into());
            }
            for (phase, ns) in &last.phases {
                lines.push(format!("  {phase}: {:.3} ms", ms(*ns)));
            }
        }
        if let Some(f) = &self.freshness {
            lines.push(format!("Freshness: {}", freshness(f)));
            lines.push(self.cut_line(f));
            lines.push(format!(
                "Newest transaction in the cut: {:.3} ms old when the query began to run",
                ms(f.newest_age_ns)
            ));
        }
        lines.extend(self.readers());
        if let Some((operators, timing)) = self.operators.take() {
            let (planned, opened) = (ms(timing.planned_ns), ms(timing.opened_ns));
            lines.push(format!("Planned after {planned:.3} ms, snapshot open after {opened:.3} ms"));
            lines.push("Operators:".into());
            lines.extend(operators.lines().into_iter().map(|line| format!("  {line}")));
        }
        self.freshness = self.freshness.or(before);
        lines.push(format!("Execution time: {:.3} ms", ms(took)));
        Ok(())
    }
}

fn latency_syntax() -> SqlError {
    SqlError::new(base::SqlState::SYNTAX_ERROR, "expected SHOW EXPECTED LATENCY FOR TABLE t IN REGION r")
}
