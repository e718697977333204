//! A sparse directed graph of operations, with auxiliary vertices.
//!
//! KEEPS: vertices below `ops` are operations, the others are auxiliary. An edge out of an auxiliary
//! vertex has class [`Class::Step`]; a path operation → auxiliary … → operation stands for one edge
//! of the class of its first step. No edge leads from an operation to itself, directly or in this
//! sense. Auxiliary vertices keep "everyone before t precedes everyone after t" and "each of these
//! readers precedes each of those writers" linear in size.

use crate::op::{KeyId, OpId};
use crate::versions::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    WriteWrite,
    WriteRead,
    ReadWrite,
    Session,
    Token,
    RealTime,
    Step,
}

/// A set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classes(u8);

impl Classes {
    pub fn of(classes: &[Class]) -> Classes {
        Classes(classes.iter().fold(1 << Class::Step as u8, |set, &class| set | 1 << class as u8))
    }
    pub fn has(self, class: Class) -> bool {
        self.0 & (1 << class as u8) != 0
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub to: u32,
    pub class: Class,
    /// The key of a dependency; unused by the other classes.
    pub key: KeyId,
    /// The earlier version of a write-write edge, the version read of the others.
    pub version: Version,
}

/// See the module. Edges of one vertex keep the order in which they were added.
pub(crate) struct Graph {
    pub ops: usize,
    first: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }
    pub fn out(&self, vertex: u32) -> &[Edge] {
        let vertex = vertex as usize;
        &self.edges[self.first[vertex] as usize..self.first[vertex + 1] as usize]
    }
    pub fn is_op(&self, vertex: u32) -> bool {
        (vertex as usize) < self.ops
    }
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The graph whose cycles are the cycles of this one without two adjacent read-write edges.
    /// Vertex `2v` stands for v, `2v + 1` for v entered through a read-write edge.
    pub fn without_adjacent_read_writes(&self) -> Graph {
        let mut builder = Builder { ops: self.ops * 2, vertices: self.len() as u32 * 2, edges: Vec::new() };
        for vertex in 0..self.len() as u32 {
            for &edge in self.out(vertex) {
                match edge.class {
                    Class::ReadWrite => builder.add(vertex * 2, Edge { to: edge.to * 2 + 1, ..edge }),
                    Class::Step => {
                        builder.add(vertex * 2, Edge { to: edge.to * 2, ..edge });
                        builder.add(vertex * 2 + 1, Edge { to: edge.to * 2 + 1, ..edge });
                    }
                    _ => {
                        builder.add(vertex * 2, Edge { to: edge.to * 2, ..edge });
                        builder.add(vertex * 2 + 1, Edge { to: edge.to * 2, ..edge });
                    }
                }
            }
        }
        builder.build()
    }
}

pub(crate) struct Builder {
    ops: usize,
    vertices: u32,
    edges: Vec<(u32, Edge)>,
}

/// An operation and an instant of it.
pub(crate) type At = (u64, OpId);

impl Builder {
    pub fn new(ops: usize) -> Builder {
        Builder { ops, vertices: ops as u32, edges: Vec::new() }
    }
    pub fn edge(&mut self, from: OpId, to: OpId, class: Class, key: KeyId, version: Version) {
        assert!(from != to, "{from} depends on itself");
        self.add(from.0, Edge { to: to.0, class, key, version });
    }
    /// An edge without a key.
    pub fn order(&mut self, from: OpId, to: OpId, class: Class) {
        self.edge(from, to, class, KeyId(0), Version::INITIAL);
    }

    /// Edges from every reader of a version to every target except itself.
    pub fn fan(&mut self, key: KeyId, version: Version, readers: &[OpId], targets: &[OpId]) {
        if readers.len() == 1 || targets.len() == 1 {
            for &reader in readers {
                for &target in targets.iter().filter(|&&target| target != reader) {
                    self.edge(reader, target, Class::ReadWrite, key, version);
                }
            }
            return;
        }
        // Targets from the i-th on, and targets up to the i-th: all but one of them is two chains.
        let upward: Vec<u32> = targets.iter().map(|_| self.vertex()).collect();
        let downward: Vec<u32> = targets.iter().map(|_| self.vertex()).collect();
        for (i, target) in targets.iter().enumerate() {
            self.step(upward[i], target.0);
            self.step(downward[i], target.0);
            if i > 0 {
                self.step(upward[i - 1], upward[i]);
                self.step(downward[i], downward[i - 1]);
            }
        }
        let mut places: Vec<(OpId, usize)> = targets.iter().copied().zip(0..).collect();
        places.sort_unstable();
        for &reader in readers {
            let mut enter = |to: u32| self.add(reader.0, Edge { to, class: Class::ReadWrite, key, version });
            let place = places.binary_search_by_key(&reader, |place| place.0);
            match place.ok().map(|at| places[at].1) {
                None => enter(upward[0]),
                Some(at) => {
                    if at > 0 {
                        enter(downward[at - 1]);
                    }
                    if at + 1 < targets.len() {
                        enter(upward[at + 1]);
                    }
                }
            }
        }
    }

    /// Edges from every source to every sink whose instant is later. Both sorted.
    pub fn after(&mut self, class: Class, sources: &[At], sinks: &[At]) {
        let mut chain: Vec<u32> = Vec::new();
        let mut passed = 0;
        for &(instant, sink) in sinks {
            passed += sources[passed..].partition_point(|source| source.0 < instant);
            while chain.len() < passed {
                let vertex = self.vertex();
                let (_, source) = sources[chain.len()];
                self.add(source.0, Edge { to: vertex, class, key: KeyId(0), version: Version::INITIAL });
                if let Some(&before) = chain.last() {
                    self.step(before, vertex);
                }
                chain.push(vertex);
            }
            if let Some(&vertex) = chain.last() {
                self.step(vertex, sink.0);
            }
        }
    }

    pub fn build(self) -> Graph {
        let mut first = vec![0_u32; self.vertices as usize + 1];
        for (from, _) in &self.edges {
            first[*from as usize + 1] += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut free = first.clone();
        let blank = Edge { to: 0, class: Class::Step, key: KeyId(0), version: Version::INITIAL };
        let mut edges = vec![blank; self.edges.len()];
        for (from, edge) in self.edges {
            let at = &mut free[from as usize];
            edges[*at as usize] = edge;
            *at += 1;
        }
        Graph { ops: self.ops, first, edges }
    }

    fn vertex(&mut self) -> u32 {
        self.vertices += 1;
        self.vertices - 1
    }
    fn step(&mut self, from: u32, to: u32) {
        self.add(from, Edge { to, class: Class::Step, key: KeyId(0), version: Version::INITIAL });
    }
    fn add(&mut self, from: u32, edge: Edge) {
        self.edges.push((from, edge));
    }
}
