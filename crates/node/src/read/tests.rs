//! Reads from phase to phase, without a node around them.

use super::*;
use crate::message::Question;
use crate::request::ReadRows;
use base::cut::{Consistency, CutChoice, Incarnation};
use base::key::KeyRange;
use base::order::Closed;
use base::topology::Topology;
use base::txn::{Granule, RowRead};
use base::wan::Wan;
use base::{Key, Row, TableId, Token};
use reads::graph::DependencyGraph;
use reads::protocol::ByLevel;
use reads::rule::Dynamic;
use reads::rule::levels::{Levels, Wish};
use std::collections::BTreeMap;

const TABLE: TableId = TableId(1);

/// Columns that have come so far.
#[derive(Default)]
struct Copies {
    applied: BTreeMap<PartitionId, LogPosition>,
    low: BTreeMap<PartitionId, Rank>,
    changed: Option<Rank>,
    graph: DependencyGraph,
}

impl View for Copies {
    fn applied(&self, partition: PartitionId) -> LogPosition {
        self.applied.get(&partition).copied().unwrap_or(LogPosition(0))
    }
    fn newest(&self, _: PartitionId) -> Rank {
        Rank::ZERO
    }
    fn low(&self, partition: PartitionId) -> Rank {
        self.complete(partition).unwrap_or_default()
    }
    fn graph(&self) -> &DependencyGraph {
        &self.graph
    }
    fn complete(&self, partition: PartitionId) -> Option<Rank> {
        self.low.get(&partition).copied()
    }
    fn changed_above(&self, rank: Rank, is_read: &dyn Fn(TableId) -> bool) -> Option<Rank> {
        self.changed.filter(|changed| *changed > rank && is_read(TABLE))
    }
}

fn topology() -> Topology {
    let mut topology = Topology::one_node_per_region(Wan::preset("perseus3").unwrap(), 1);
    topology.clock_bound_ns = 5;
    topology
}

fn open(partitions: &[PartitionId]) -> OpenSnapshot {
    let partitions = partitions.iter().copied().collect();
    OpenSnapshot {
        at: None,
        consistency: Consistency::Rss,
        token: Token::default(),
        tables: [(TABLE, partitions)].into(),
        wanted: BTreeMap::new(),
    }
}

fn wish(level: Consistency, token: &Token) -> Wish<'_> {
    Wish { arrived: Time(100), level, given: None, token, is_read: &|_| true }
}

fn granules(partitions: &[PartitionId]) -> BTreeMap<PartitionId, Vec<Granule>> {
    partitions.iter().map(|p| (*p, vec![Granule::Range(TABLE, KeyRange::all())])).collect()
}

fn closed(position: u64, through: u64) -> AnswerBody {
    AnswerBody::Closed { closed: Closed { position: LogPosition(position) }, through: Rank(through) }
}

#[test]
fn a_strong_query_is_closed_then_applied_then_open() {
    let both = [PartitionId(0), PartitionId(1)];
    let (mut copies, token) = (Copies::default(), Token::default());
    let levels = Levels::new(&topology(), Dynamic::Off, None);
    let followed =
        levels.over_columns(&wish(Consistency::Rss, &token), granules(&both), &ByLevel, &copies).unwrap();
    let mut read = Read::columns(Time(100), followed, Target::Client(open(&both)));
    assert_eq!(read.floor(), Some(Rank(105)), "its cut lies behind every clock");
    assert_eq!(read.asks().len(), 2);
    assert!(matches!(read.advance(Time(101), &copies), Ok(Step::Wait)));
    for (nth, partition) in both.into_iter().enumerate() {
        let question = QuestionId(nth as u64);
        assert!(read.told(Time(110), question, partition, 0, closed(3, 105)));
        assert!(matches!(read.advance(Time(110), &copies), Ok(Step::Wait)), "nothing of it is here yet");
    }
    copies.applied = both.into_iter().map(|p| (p, LogPosition(3))).collect();
    let Ok(Step::Open(readable)) = read.advance(Time(120), &copies) else { panic!("all of it is here") };
    assert_eq!((readable.cut, readable.freshness.choice), (base::Cut::Rank(Rank(105)), CutChoice::Clock));
    assert_eq!(readable.freshness.coordination_ns, 10);
    assert_eq!(readable.freshness.wait_ns, 10);
    assert!(!read.told(Time(121), QuestionId(9), both[0], 0, AnswerBody::Streamed), "no rule asks that");
}

#[test]
fn a_cut_that_is_found_by_asking_is_the_latest_that_anybody_told() {
    let both = [PartitionId(0), PartitionId(1)];
    let topology = Topology { clock_bound_ns: 0, unbounded_clocks: true, ..topology() };
    let (copies, token) = (Copies::default(), Token::at(Rank(7)));
    let levels = Levels::new(&topology, Dynamic::Off, None);
    let unknown = levels.choose(&wish(Consistency::Regular, &token), both.into_iter(), &copies);
    assert_eq!(unknown.unwrap(), None);
    assert!(levels.choose(&wish(Consistency::Rss, &token), both.into_iter(), &copies).is_err());
    let goal = Goal::Pin { level: Consistency::Regular, token };
    let mut read = Read::choosing(Time(100), levels.found(Time(100), Rank(7), granules(&both)), goal);
    for (partition, rank) in [(both[0], 30), (both[1], 20)] {
        assert!(matches!(read.advance(Time(101), &copies), Ok(Step::Wait)));
        assert_eq!(read.floor(), None);
        assert!(read.told(Time(102), QuestionId(1), partition, 0, AnswerBody::Latest(Rank(rank))));
    }
    let Ok(Step::Fetch(chosen)) = read.advance(Time(103), &copies) else { panic!("all have told") };
    assert_eq!(chosen, Chosen { rank: Rank(30), choice: CutChoice::Calibrated });
    assert!(read.follow_up().is_empty(), "others close it");
}

#[test]
fn levels_differ_in_what_they_wait_for() {
    let (p, token) = (PartitionId(0), Token::at(Rank(60)));
    let mut copies = Copies { low: [(p, Rank(40))].into(), ..Copies::default() };
    let levels = Levels::new(&topology(), Dynamic::Off, None);
    let at = |level, copies: &Copies| {
        levels.choose(&wish(level, &token), [p].into_iter(), copies).unwrap().expect("clocks tell").rank
    };
    let ranks = |copies: &Copies| Consistency::ALL.map(|level| at(level, copies).0);
    assert_eq!(ranks(&copies), [105, 105, 60, 40], "`stale` waits for nothing");
    copies.changed = Some(Rank(50));
    assert_eq!(ranks(&copies), [105, 105, 60, 50], "the plan was made with this table");
    copies.low.clear();
    assert_eq!(ranks(&copies), [105, 105, 105, 105], "nothing is known to be complete");
}

#[test]
fn rows_of_several_partitions_are_complete_once_each_has_answered() {
    let row_read = |partition: u16| RowRead {
        partition: PartitionId(partition),
        table: TABLE,
        index: None,
        range: KeyRange::all(),
        filter: None,
        limit: None,
        descending: false,
    };
    let read = ReadRows {
        at: None,
        consistency: Consistency::Rss,
        token: Token::default(),
        reads: vec![row_read(1), row_read(0), row_read(1)],
    };
    let chosen = Chosen { rank: Rank(50), choice: CutChoice::Clock };
    let Ok(questions) = rows::questions(read, chosen.rank) else { panic!("they are of two partitions") };
    let mut open = BTreeMap::new();
    for (nth, (partition, slots, question)) in questions.into_iter().enumerate() {
        let Question::Rows { at, reads } = question else { panic!("rows are read") };
        assert_eq!((at, reads.len()), (Rank(50), slots.len()));
        open.insert(QuestionId(u64::from(partition.0)), slots);
        assert_eq!(usize::from(partition.0), nth);
    }
    let mut read = Read::rows(Time(100), RowFetch::new(chosen, 0, 3, open));
    let row = |n: u8| vec![(Key::from_bytes(&[n]), Row::of(&[]))];
    let rows = AnswerBody::Rows(vec![row(1), row(2)]);
    assert!(read.told(Time(110), QuestionId(1), PartitionId(1), 4, rows));
    assert!(matches!(read.advance(Time(110), &Copies::default()), Ok(Step::Wait)));
    assert!(read.told(Time(108), QuestionId(0), PartitionId(0), 0, AnswerBody::Rows(vec![row(3)])));
    assert!(matches!(read.advance(Time(120), &Copies::default()), Ok(Step::Answer)));
    let rows = read.into_rows().unwrap();
    let rows = rows.answer(Time(120), Time(100), Incarnation::default(), BTreeSet::new());
    assert_eq!(rows.reads, [row(1), row(3), row(2)]);
    assert_eq!(rows.freshness.coordination_ns, 8, "the slowest way, without what it was held back");
}

#[test]
fn a_distributed_query_counts_the_time_that_it_took_to_find_its_cut() {
    let (me, other, scan) = (NodeId(0), NodeId(1), QuestionId(4));
    // As a time, the rank lies far behind: clocks have no bound here.
    let chosen = Chosen { rank: Rank(7), choice: CutChoice::Calibrated };
    let part = ScanPart { at: Rank(7), tables: BTreeMap::new() };
    let mut gather = Gather::new(OpenSnapshot { tables: BTreeMap::new(), ..open(&[]) }, chosen, Time(100));
    gather.begin(Time(140), scan, other, part, BTreeSet::new());
    assert!(!gather.heard(Time(150), me, scan), "another reader was asked");
    assert!(gather.heard(Time(150), other, scan));
    let opened = crate::message::Opened {
        pieces: 0,
        catalog: Default::default(),
        statistics: BTreeMap::new(),
        newest: Rank(7),
        waited_ns: 5,
    };
    assert!(gather.opened(Time(160), other, scan, opened, BTreeMap::new()).is_some());
    let going = gather.go_on(scan).expect("it is open");
    assert!(going.is_complete && going.are_all && going.fetches.is_empty());
    let freshness = gather.assembled(Time(160), me).expect("it has a part").freshness;
    assert_eq!((freshness.coordination_ns, freshness.wait_ns), (55, 5));
    assert_eq!(freshness.staleness_ns, 0, "whatever was answered before it came is in there");
    assert_eq!((freshness.choice, freshness.other_readers), (CutChoice::Calibrated, 1));
}
