//! EXPLAIN: where a statement goes, whom it asks, how many WAN round trips it takes, rows or columns; with ANALYZE
//! what it took.

mod claims;
pub(super) mod document;
mod latency;
mod options;
mod plans;

use super::Session;
use super::plan::{self, Plan};
use super::shapes::{explain_column, freshness};
use crate::response::{Response, RowStream, Rows};
use analytics::NotAtReplica;
use base::cut::{Consistency, CutChoice, Freshness};
use base::error::SqlResult;
use base::schema::{Placement, Table};
use base::txn::{AccessSet, Granule};
use base::{Datum, NodeId, PartitionId, RegionId, SqlError, TableId};
use claims::{Claim, Touched};
use document::{Document, Json};
pub(super) use options::{ExplainOptions, Format};
use sql::lower::scope::ParameterTypes;
use sqlparser::ast::Statement;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the reads of a running EXPLAIN ANALYZE have asked of other nodes.
#[derive(Default)]
pub(super) struct Measured {
    pub asked: BTreeSet<NodeId>,
    /// From questions to the node until its answers.
    pub waited_ns: u64,
    pub has_read: bool,
    /// Who answered the last read by rows, where the region has replicas.
    pub replica: Option<Result<NodeId, NotAtReplica>>,
}

/// Round trips below this are none of a WAN, and what a statement took is not told in them.
const WAN_NS_MIN: u64 = 100_000;

impl Session {
    pub(super) async fn run_explain(
        &mut self,
        explain: &Statement,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<Response> {
        let options = ExplainOptions::of(explain)?;
        let (plan, parameters, types) = self.explained(statement, parameters)?;
        if options.analyze {
            refuse_unmeasured(&plan)?;
        }
        let (mut document, claim) = self.describe(&plan, &parameters, &types)?;
        if options.analyze {
            self.analyze(&plan, &parameters, &claim, options.summary, &mut document).await?;
        }
        let rows = match options.format {
            Format::Json => vec![vec![Datum::text(document.json())]],
            Format::Yaml => vec![vec![Datum::text(document.yaml())]],
            Format::Xml => vec![vec![Datum::text(document.xml())]],
            Format::Text => document.text().into_iter().map(|line| vec![Datum::text(line)]).collect(),
        };
        let columns = Arc::new(vec![explain_column(options.format)]);
        Ok(Response::Rows(Rows { columns, stream: RowStream::values(rows), tag: "EXPLAIN" }))
    }

    /// A plan, its parameters and their types: of EXECUTE those of the prepared statement, of DECLARE those of its query.
    fn explained(
        &self,
        statement: &Statement,
        parameters: &[Datum],
    ) -> SqlResult<(Arc<Plan>, Vec<Datum>, ParameterTypes)> {
        let types_of = |values: &[Datum]| ParameterTypes(values.iter().map(sql::types::type_of).collect());
        if let Statement::Execute { name: Some(name), parameters: values, .. } = statement {
            let prepared = self.stored(&sql::names::parts(name)?.join("."))?;
            let values = self.execute_values(&prepared, values, parameters)?;
            let plan = prepared.plan(self, &values)?;
            let values = prepared.scalars(&values).into_owned();
            let types = types_of(&values);
            return Ok((plan, values, types));
        }
        if let Statement::Declare { stmts } = statement
            && let [declare] = stmts.as_slice()
        {
            return self.explained(&super::cursor::declared_query(declare)?, parameters);
        }
        let (catalog, mut types) = (self.catalog(), types_of(parameters));
        let plan = plan::plan(&self.context(&catalog), statement, &mut types)?;
        Ok((Arc::new(plan), parameters.to_vec(), types))
    }

    fn describe_home(&self, tables: &[&Table], document: &mut Document) {
        let homes: Vec<String> = tables.iter().map(|table| self.home(table)).collect();
        let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        document.plan_lines(Vec::new(), "Relation Name", names[0].into());
        document.plan(format!("Home: {}", homes.join(", ")), "Home", Json::texts(homes));
    }

    fn describe_places(&self, touched: &Touched, claim: &Claim, document: &mut Document) {
        let partitions: BTreeSet<PartitionId> = touched.values().flatten().copied().collect();
        self.describe_partitions(&partitions, claim, document);
    }

    fn describe_partitions(
        &self,
        partitions: &BTreeSet<PartitionId>,
        claim: &Claim,
        document: &mut Document,
    ) {
        let topology = self.cluster().topology();
        let list: Vec<String> = partitions.iter().map(|p| p.to_string()).collect();
        let line = format!("Partitions: {} ({})", partitions.len(), list.join(" "));
        document.plan(line, "Partitions", Json::texts(list));
        let names: Vec<&str> = claim.homes.iter().map(|r| topology.region_name(*r)).collect();
        document.plan(format!("Regions: {}", names.join(", ")), "Regions", Json::texts(names));
    }

    fn home(&self, table: &Table) -> String {
        let (catalog, topology) = (self.catalog(), self.cluster().topology());
        let parts = sql::ddl::placement::described(table, &catalog, topology);
        match (&table.placement, parts.as_slice()) {
            (Placement::Replicated, _) => "replicated in every partition".into(),
            (_, [(_, column), (_, map)]) => format!("by {column} ({map})"),
            (_, parts) => parts.iter().map(|(_, value)| value.as_str()).collect(),
        }
    }

    /// Where these partitions' rows of a table are ordered.
    pub(super) fn homes(&self, table: TableId, partitions: &BTreeSet<PartitionId>) -> BTreeSet<RegionId> {
        let (catalog, topology) = (self.catalog(), self.cluster().topology());
        if self.settings.merges_epochs() {
            return self.all_regions();
        }
        partitions.iter().map(|p| catalog.home_of(table, *p, topology)).collect()
    }

    /// Where a cluster that merges epochs orders anything.
    fn all_regions(&self) -> BTreeSet<RegionId> {
        self.cluster().topology().regions().collect()
    }

    /// Where what is declared is ordered.
    fn homes_of(&self, access: &AccessSet) -> BTreeSet<RegionId> {
        let (catalog, topology) = (self.catalog(), self.cluster().topology());
        if self.settings.merges_epochs() {
            return self.all_regions();
        }
        let owner = |id: TableId| catalog.index(id).map_or(id, |(table, _)| table.id);
        let declared = access.by_partition.iter().flat_map(|(p, all)| all.iter().map(|a| (*p, &a.granule)));
        let home = |(partition, granule): (PartitionId, &Granule)| match granule.table() {
            Some(id) => catalog.home_of(owner(id), partition, topology),
            None => topology.region_of_partition(partition),
        };
        declared.map(home).collect()
    }

    fn describe_tables(&self, reads: &Touched, document: &mut Document) {
        let catalog = self.catalog();
        let topology = self.cluster().topology();
        let (mut lines, mut tables) = (Vec::new(), Vec::new());
        for (id, partitions) in reads {
            let name = catalog.table(*id).map_or("?", |t| t.name.as_str());
            let homes = self.homes(*id, partitions);
            let regions: Vec<&str> = homes.iter().map(|region| topology.region_name(*region)).collect();
            lines.push(format!(
                "Table {name}: {} of {} partitions, regions {}",
                partitions.len(),
                topology.partitions.len(),
                regions.join(", ")
            ));
            tables.push(Json::Fields(vec![
                ("Relation Name", name.into()),
                ("Partitions", Json::texts(partitions)),
                ("Regions", Json::texts(regions)),
            ]));
        }
        document.plan_lines(lines, "Tables", Json::List(tables));
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
        format!("{chosen}{}", last.unwrap_or_default())
    }

    pub(super) fn cut_rule(&self, choice: CutChoice) -> String {
        let bound = self.cluster().topology().clock_bound_ns as f64 / base::time::MS as f64;
        match choice {
            CutChoice::Given => "the transaction's".into(),
            CutChoice::Clock => format!("by the clock, now + {bound:.3} ms"),
            CutChoice::Calibrated if self.settings.merges_epochs() => {
                "by the epoch that this region has open or closed last; no node is asked".into()
            }
            CutChoice::Calibrated => "by calibration: leaders of sequences are asked where these end".into(),
            CutChoice::ClosedSet => "by calibration: partitions are asked how far they have executed".into(),
            CutChoice::Published => "what the partition publishes is looked up; no node is asked".into(),
            CutChoice::Local if self.level() == Consistency::Stale => "what is complete here".into(),
            CutChoice::Local => "what is complete here, or what the session has seen if that is later".into(),
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
    async fn analyze(
        &mut self,
        plan: &Plan,
        parameters: &[Datum],
        claim: &Claim,
        summary: bool,
        document: &mut Document,
    ) -> SqlResult<()> {
        self.measured = Some(Measured::default());
        let outcome = self.analyze_now(plan, parameters, claim, summary, document).await;
        self.measured = None;
        self.operators = None;
        outcome
    }

    async fn analyze_now(
        &mut self,
        plan: &Plan,
        parameters: &[Datum],
        claim: &Claim,
        summary: bool,
        document: &mut Document,
    ) -> SqlResult<()> {
        let ms = |ns: u64| ns as f64 / base::time::MS as f64;
        self.last = None;
        self.sources.clear();
        let before = self.freshness.take();
        let start = self.cluster().now();
        let response = Box::pin(self.run(plan, parameters)).await?;
        let mut count = 0;
        match response {
            Response::Rows(mut rows) => loop {
                let batch = rows.stream.next_rows(8192).await?;
                if batch.is_empty() {
                    break;
                }
                count += batch.len();
            },
            // A write's tag ends with the number of its rows.
            Response::Command(tag) => {
                count = tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            }
            Response::CopyIn(_) | Response::CopyOut(_) | Response::Empty => {}
        }
        let took = self.cluster().now().since(start);
        document.measured(format!("Rows: {count}"), "Actual Rows", Json::Whole(count as u64));
        let measured = self.measured.take().unwrap_or_default();
        let mut claim = claim.clone();
        claim.asked.extend(&measured.asked);
        let mut on_the_way_ns = measured.waited_ns;
        if let Some(last) = &self.last {
            let topology = self.cluster().topology();
            let names: Vec<&str> = last.regions.iter().map(|r| topology.region_name(*r)).collect();
            let (txn, rank) = (last.txn.to_string(), last.rank.to_string());
            let line = format!("Transaction {txn} at rank {rank}, regions {}", names.join(", "));
            let fields =
                vec![("Id", Json::from(txn)), ("Rank", Json::from(rank)), ("Regions", Json::texts(names))];
            document.measured_lines(vec![line], "Transaction", Json::Fields(fields));
            claim.homes.extend(&last.regions);
            on_the_way_ns += last.latency_ns;
        }
        if measured.has_read {
            self.describe_answered(&measured, document);
        }
        let round_trip_ns = self.round_trip_ns(&claim);
        if round_trip_ns >= WAN_NS_MIN && (measured.has_read || self.last.is_some()) {
            let trips = on_the_way_ns as f64 / round_trip_ns as f64;
            document.measured(
                format!("WAN round trips: {trips:.2}"),
                "WAN Round Trips",
                Json::rounded(trips),
            );
        }
        if let Some(last) = &self.last {
            let lines =
                last.phases.iter().map(|(phase, ns)| format!("  {}: {:.3} ms", phase_name(*phase), ms(*ns)));
            let phases = last.phases.iter().map(|(phase, ns)| (phase_name(*phase), Json::rounded(ms(*ns))));
            document.measured_lines(lines.collect(), "Phases", Json::Fields(phases.collect()));
        }
        if let Some(f) = &self.freshness {
            let fields = vec![
                ("Visibility Delay", Json::rounded(ms(f.visibility_delay_ns()))),
                ("Staleness", Json::rounded(ms(f.staleness_ns))),
                ("Coordination", Json::rounded(ms(f.coordination_ns))),
                ("Wait", Json::rounded(ms(f.wait_ns))),
            ];
            let line = format!("Freshness: {}", freshness(f));
            document.measured_lines(vec![line], "Freshness", Json::Fields(fields));
            let cut = self.cut_line(f);
            document.measured(format!("Cut: {cut}"), "Cut", cut);
            // Of rows, only those that were asked for are looked at.
            if let Plan::Query(_) = plan {
                document.measured(
                    format!(
                        "Newest transaction in the cut: {:.3} ms old when the query began to run",
                        ms(f.newest_age_ns)
                    ),
                    "Newest Transaction Age",
                    Json::rounded(ms(f.newest_age_ns)),
                );
            }
        }
        if !self.sources.is_empty() {
            document.measured_lines(self.readers(), "Readers", Json::texts(self.readers()));
        }
        if let Some((operators, timing)) = self.operators.take() {
            let (planned, opened) = (ms(timing.planned_ns), ms(timing.opened_ns));
            document.measured_lines(
                vec![format!("Planned after {planned:.3} ms, snapshot open after {opened:.3} ms")],
                "Planning Time",
                Json::rounded(planned),
            );
            document.measured_lines(Vec::new(), "Snapshot Time", Json::rounded(opened));
            let shown = operators.lines();
            let tree = Json::List(document::tree(&shown));
            let lines = std::iter::once("Operators:".to_string())
                .chain(shown.into_iter().map(|line| format!("  {line}")));
            document.measured_lines(lines.collect(), "Operators", tree);
        }
        self.freshness = self.freshness.or(before);
        if summary {
            let took = ms(took);
            document.measured(format!("Execution time: {took:.3} ms"), "Execution Time", Json::rounded(took));
        }
        Ok(())
    }
}

/// Errors: 0A000 for ANALYZE of a statement that is no query and makes no table of one: to run it is to change something
/// without a word about it.
fn refuse_unmeasured(plan: &Plan) -> SqlResult<()> {
    let Plan::Utility(statement) = plan else { return Ok(()) };
    let is_of_query = match statement {
        Statement::CreateTable(create) => create.query.is_some(),
        // SELECT INTO.
        Statement::Query(_) => true,
        other => super::materialized::makes_rows(other),
    };
    match is_of_query {
        true => Ok(()),
        false => {
            let what = format!("EXPLAIN ANALYZE of {}", sql::ddl::first_words(statement));
            Err(SqlError::unsupported(what).hint("Leave ANALYZE out to see what the statement is."))
        }
    }
}

/// What a phase of an engine is called in an answer.
fn phase_name(phase: &'static str) -> &'static str {
    match phase {
        "gate" => "commit wait",
        phase => phase,
    }
}
