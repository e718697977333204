//! What a partition's node pays for shipping its log to five readers, and what a reader pays for taking it: CPU time of
//! the real code, for the simulator's cost model (`experiments::perseus::deployment`).
//!
//! `cargo run --release -p node --example shipping -- [warehouses] [transactions]`
//!
//! TPC-C's five procedures through `Node::step` of one node; what it wants sent is encoded once for all, written to a
//! socket of the loopback for each, decoded, and taken by a reader's node. CPU time is this thread's.

mod common;

use base::order::StreamItem;
use base::process::{Event, Process};
use base::time::{SECOND, US};
use base::topology::{NodeSpec, PartitionSpec, Topology};
use base::txn::procedure::Procedures;
use base::txn::{AccessSet, Submission, TxnProgram};
use base::wan::Wan;
use base::{NodeId, RegionId, Time, Token, codec};
use common::host::Host;
use common::{P, cpu_ns};
use mimalloc::MiMalloc;
use node::message::Message;
use node::streams::{Ack, Feed};
use node::{Node, Options, Request};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;
use txn::perseus::Perseus;
use workload::tpcc::{Inputs, Mix, Tpcc};

/// As in the `meridian` command.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Copies of a partition, as in the paper.
const READERS: u16 = 5;
const ROUNDS: usize = 3;
/// Readers gather their acknowledgements for so many messages.
const ACK_MESSAGES: u64 = 5;
/// Virtual time between two transactions: 2,000 a second.
const PACE_NS: u64 = 500 * US;

type OneNode = Node<Perseus>;

/// Time passes at a node; its background work is part of what it takes.
fn pass(host: &mut Host<Perseus>, until: Time) {
    host.pass(until, Host::compute);
}

/// ns and how often.
#[derive(Default)]
struct Spent {
    ns: u64,
    count: u64,
}

impl Spent {
    fn add(&mut self, ns: u64, count: u64) {
        self.ns += ns;
        self.count += count;
    }
    fn mean(&self) -> f64 {
        self.ns as f64 / self.count.max(1) as f64
    }
}

struct Pair {
    writer: Host<Perseus>,
    /// What was sent, and when.
    encoded: Vec<(Time, Vec<u8>)>,
    begun: Instant,
    readers: u16,
    /// What looking at the CPU time takes.
    look_ns: u64,
    /// Of messages with at least a record: bytes, whole rows instead of patches, items.
    bytes: u64,
    whole_bytes: u64,
    messages: u64,
    steps: Spent,
    encode: Spent,
    decode: Spent,
    take: Spent,
    acks: Spent,
}

impl Pair {
    fn timed<T>(
        &mut self,
        of: fn(&mut Pair) -> &mut Spent,
        count: u64,
        run: impl FnOnce(&mut Pair) -> T,
    ) -> T {
        let before = cpu_ns(self.begun);
        let result = run(self);
        let ns = (cpu_ns(self.begun) - before).saturating_sub(self.look_ns);
        of(self).add(ns, count);
        result
    }

    fn submit(&mut self, program: TxnProgram, access: AccessSet) {
        let submission = Submission {
            program: Arc::new(program),
            access: Arc::new(access),
            token: Token::default(),
            request: None,
            isolation: Default::default(),
        };
        self.timed(|p| &mut p.steps, 1, |p| _ = p.writer.request(Request::Submit(submission)));
        self.pass(PACE_NS);
    }

    fn pass(&mut self, ns: u64) {
        let until = self.writer.now + ns;
        self.timed(|p| &mut p.steps, 0, |p| pass(&mut p.writer, until));
        let mut next = None;
        for (to, message) in std::mem::take(&mut self.writer.sent) {
            let Message::Stream { partition, generation, life, collected, first, items } = message else {
                continue;
            };
            assert_eq!(to.len(), usize::from(self.readers), "one message for all");
            next = Some(first + items.len() as u64);
            self.whole_bytes += items.iter().map(whole_len).sum::<usize>() as u64;
            let message: <OneNode as Process>::Message =
                Message::Stream { partition, generation, life, collected, first, items };
            let bytes = self.timed(|p| &mut p.encode, 0, |_| codec::encode(&message));
            self.encode.count += bytes.len() as u64;
            self.bytes += bytes.len() as u64;
            self.messages += 1;
            self.encoded.push((until, bytes));
        }
        // As if all had arrived: the reader takes it afterwards, so that it does not use the caches meanwhile.
        if let Some(next) = next
            && self.messages % ACK_MESSAGES == 0
        {
            let count = u64::from(self.readers);
            self.timed(
                |p| &mut p.acks,
                count,
                |p| {
                    for reader in 1..=p.readers {
                        let ack = Ack { since: Time(SECOND), generation: 0, next };
                        let message = Message::StreamAck { partition: P, ack };
                        p.writer.step(Event::Message { from: NodeId(reader), message });
                    }
                },
            );
        }
    }

    /// A reader takes what was sent; the messages before the `counted`-th do not count.
    fn read(&mut self, reader: &mut Host<Perseus>, counted: usize) {
        for (nth, (at, bytes)) in std::mem::take(&mut self.encoded).into_iter().enumerate() {
            pass(reader, at);
            let decoded = self.timed(|p| &mut p.decode, bytes.len() as u64, |_| codec::decode(&bytes));
            let message = decoded.expect("what is written is read");
            let event = Event::Message { from: NodeId(0), message };
            self.timed(
                |p| &mut p.take,
                bytes.len() as u64,
                |_| {
                    reader.step(event);
                    reader.compute();
                },
            );
            if nth + 1 == counted {
                (self.decode, self.take) = Default::default();
            }
        }
    }

    fn reset(&mut self) {
        (self.bytes, self.whole_bytes, self.messages) = (0, 0, 0);
        (self.steps, self.encode, self.acks) = Default::default();
    }
}

/// ns of CPU per message of this size, written to a socket of the loopback whose other end is drained.
fn socket_ns(bytes: &[u8], count: usize, begun: Instant) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut out = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    out.set_nodelay(true).expect("a socket");
    let (mut inn, _) = listener.accept().expect("a connection");
    let drain = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while inn.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let before = cpu_ns(begun);
    (0..count).for_each(|_| out.write_all(bytes).expect("it is drained"));
    let spent = cpu_ns(begun) - before;
    drop(out);
    drain.join().expect("it ends with the connection");
    spent as f64 / count as f64
}

/// Runs the transactions at a node with so many readers; what they took is in the answer.
fn run(readers: u16, warehouses: i32, transactions: u64) -> Pair {
    let tpcc = Tpcc::new(warehouses);
    let region = RegionId(0);
    let mut nodes = vec![NodeSpec { region, subscribes: Vec::new() }];
    nodes.extend((0..readers).map(|_| NodeSpec { region, subscribes: vec![P] }));
    let partitions = vec![PartitionSpec { region, node: NodeId(0), copies: Vec::new() }];
    let wan = Wan::uniform("one", &["here"], 1, 1);
    let topology = Arc::new(Topology {
        wan,
        nodes,
        partitions,
        clock_bound_ns: 0,
        unbounded_clocks: false,
        spread_over: 0,
        removed: Vec::new(),
    });
    let mut procedures = Procedures::default();
    workload::tpcc::procedures::register(&mut procedures);
    let procedures = Arc::new(procedures);
    let host = |id| {
        // Readers are only heard on their streams, so they are soon taken for gone; what they would read is collected.
        let options = txn::perseus::Options { lease_ns: SECOND / 5, ..Default::default() };
        let engine = Perseus::new(topology.clone(), id, 1, options);
        let node = Node::new(id, topology.clone(), procedures.clone(), engine, Options::default());
        Host::new(node, Time(SECOND))
    };
    let begun = Instant::now();
    let before = cpu_ns(begun);
    (0..1000).for_each(|_| _ = cpu_ns(begun));
    let look_ns = (cpu_ns(begun) - before) / 1000;
    let mut pair = Pair {
        writer: host(NodeId(0)),
        encoded: Vec::new(),
        begun,
        readers,
        look_ns,
        bytes: 0,
        whole_bytes: 0,
        messages: 0,
        steps: Spent::default(),
        encode: Spent::default(),
        decode: Spent::default(),
        take: Spent::default(),
        acks: Spent::default(),
    };
    // First words.
    pair.pass(SECOND);
    common::load(&tpcc, &topology, &mut |program, access| {
        pair.submit(program, access);
        pair.writer.node.catalog()
    });
    pair.pass(3 * SECOND);
    let catalog = pair.writer.node.catalog();
    let mut terminals: Vec<Inputs> =
        (0..warehouses as u32).map(|n| Inputs::new(&tpcc, Mix::default(), n, warehouses as u32, 0)).collect();
    pair.reset();
    let loaded = pair.encoded.len();
    for n in 0..transactions as usize {
        let count = terminals.len();
        let (name, args) = terminals[n % count].next_input().call(1);
        let procedure = procedures.get(name).expect("registered");
        let access = procedure.declare(&args, &catalog, &topology).expect("its tables exist");
        pair.submit(TxnProgram::Procedure { name: name.into(), args }, access);
    }
    if readers > 0 {
        pair.read(&mut host(NodeId(1)), loaded);
    }
    pair
}

/// Bytes of an item with whole rows instead of patches.
fn whole_len(feed: &Feed) -> usize {
    match feed {
        Feed::Item(item) => match &**item {
            StreamItem::Record(record) => codec::encoded_len(&StreamItem::Record(record.clone().whole())),
            item => codec::encoded_len(item),
        },
        other => codec::encoded_len(other),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let warehouses = arguments.next().unwrap_or(2) as i32;
    let transactions = arguments.next().unwrap_or(20_000);
    println!("{transactions} transactions of TPC-C, {warehouses} warehouses");
    let line = |what: &str, value: f64, unit: &str| println!("{what:<52} {value:>8.2} {unit}");
    // In turns, and the best of each: neighbours on the machine only ever add.
    let rounds: Vec<(Pair, Pair)> = (0..ROUNDS)
        .map(|_| (run(0, warehouses, transactions), run(READERS, warehouses, transactions)))
        .collect();
    let least = |of: &dyn Fn(&Pair) -> f64, pairs: &mut dyn Iterator<Item = &Pair>| {
        pairs.map(of).fold(f64::INFINITY, f64::min)
    };
    let alone = least(&|p| p.steps.mean(), &mut rounds.iter().map(|(alone, _)| alone));
    let with = |of: &dyn Fn(&Pair) -> f64| least(of, &mut rounds.iter().map(|(_, with)| with));
    let pair = &rounds[0].1;
    line("a transaction's steps and timers, no readers", alone / 1e3, "µs");
    let per_txn = |total: u64| total as f64 / transactions as f64;
    let per_kib = |spent: &Spent| spent.mean() * 1024.0 / 1e3;
    let steps = with(&|p| p.steps.mean());
    line("a transaction's steps and timers, five readers", steps / 1e3, "µs");
    line("bytes shipped per transaction, to each", per_txn(pair.bytes), "");
    line("the same with whole rows", per_txn(pair.whole_bytes), "");
    line("bytes of a message", pair.bytes as f64 / pair.messages as f64, "");
    line("encode, once", with(&|p| per_kib(&p.encode)), "µs/KiB");
    line("decode, at a reader", with(&|p| per_kib(&p.decode)), "µs/KiB");
    line("take, at a reader that keeps columns", with(&|p| per_kib(&p.take)), "µs/KiB");
    line("take an acknowledgement, and let go", with(&|p| p.acks.mean()) / 1e3, "µs");
    let begun = pair.begun;
    let small = socket_ns(&[7; 100], 100_000, begun);
    let large = socket_ns(&vec![7; 64 << 10], 20_000, begun);
    line("write 100 bytes to a socket", small / 1e3, "µs");
    line("write a KiB more", (large - small) / 1e3 / 63.9, "µs");
    let mean = (pair.bytes / pair.messages) as usize;
    let write = socket_ns(&vec![7; mean], 50_000, begun) * pair.messages as f64 * f64::from(READERS);
    let ships = with(&|p| (p.encode.ns + p.acks.ns) as f64) + write;
    let shipping = steps + ships / transactions as f64;
    line("a transaction with all that shipping it takes", shipping / 1e3, "µs");
    line("lost of the transactions of a node", 100.0 * (1.0 - alone / shipping), "%");
}
