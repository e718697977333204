//! Events in the order of (time, sequence). Hot.
//!
//! KEEPS: of two events at one instant, the one pushed first happens first.

use base::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A priority queue. Bodies lie in a slab, so that the heap moves 24 bytes whatever they weigh.
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    bodies: Vec<Option<T>>,
    free: Vec<u32>,
    sequence: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), bodies: Vec::new(), free: Vec::new(), sequence: 0 }
    }
}

impl<T> Queue<T> {
    pub fn new() -> Queue<T> {
        Queue::default()
    }
    pub fn push(&mut self, at: Time, body: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.bodies[slot as usize] = Some(body);
                slot
            }
            None => {
                self.bodies.push(Some(body));
                (self.bodies.len() - 1) as u32
            }
        };
        self.sequence += 1;
        self.heap.push(Reverse((at, self.sequence, slot)));
    }
    pub fn pop(&mut self) -> Option<(Time, T)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        Some((at, self.bodies[slot as usize].take().expect("a queued slot is filled")))
    }
    /// When the next event happens.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }
    pub fn len(&self) -> usize {
        self.heap.len()
    }
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_by_arrival_and_slots_are_used_again() {
        let mut queue = Queue::new();
        for (at, body) in [(5, 'c'), (3, 'a'), (5, 'd'), (4, 'b')] {
            queue.push(Time(at), body);
        }
        assert_eq!(queue.next_at(), Some(Time(3)));
        assert_eq!(queue.pop(), Some((Time(3), 'a')));
        queue.push(Time(5), 'e');
        let rest: String = std::iter::from_fn(|| queue.pop()).map(|(_, body)| body).collect();
        assert_eq!(rest, "bcde");
        assert_eq!(queue.bodies.len(), 4);
    }
}
