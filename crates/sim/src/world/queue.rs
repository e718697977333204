//! Events in the order of (time, order). Hot.
//!
//! KEEPS: of two events at one instant, the one with the lower [`Order`] happens first. An order belongs to one event
//! and says who caused it, so that it does not matter when the event was pushed.

use base::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Among events of one instant: which event loop caused it, and that loop's count of what it has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order(u64);

impl Order {
    pub fn new(origin: u16, sequence: u64) -> Order {
        debug_assert!(sequence < 1 << 48, "a loop causes fewer events");
        Order(u64::from(origin) << 48 | sequence)
    }
}

/// A priority queue. Bodies lie in a slab, so that the heap moves 24 bytes whatever they weigh.
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<(Time, Order, u32)>>,
    bodies: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), bodies: Vec::new(), free: Vec::new() }
    }
}

impl<T> Queue<T> {
    pub fn new() -> Queue<T> {
        Queue::default()
    }
    pub fn push(&mut self, at: Time, order: Order, body: T) {
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
        self.heap.push(Reverse((at, order, slot)));
    }
    pub fn pop(&mut self) -> Option<(Time, T)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        Some((at, self.bodies[slot as usize].take().expect("a queued slot is filled")))
    }
    /// When the next event happens, and its place among those of that instant.
    pub fn next(&self) -> Option<(Time, Order)> {
        self.heap.peek().map(|Reverse((at, order, _))| (*at, *order))
    }
    pub fn next_at(&self) -> Option<Time> {
        self.next().map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_by_order_and_slots_are_used_again() {
        let mut queue = Queue::new();
        for (at, order, body) in [(5, (1, 1), 'c'), (3, (1, 2), 'a'), (5, (2, 1), 'd'), (4, (1, 3), 'b')] {
            queue.push(Time(at), Order::new(order.0, order.1), body);
        }
        assert_eq!(queue.next_at(), Some(Time(3)));
        assert_eq!(queue.pop(), Some((Time(3), 'a')));
        // Pushed late, and yet before what others caused.
        queue.push(Time(5), Order::new(0, 9), 'e');
        let rest: String = std::iter::from_fn(|| queue.pop()).map(|(_, body)| body).collect();
        assert_eq!(rest, "becd");
        assert_eq!(queue.bodies.len(), 4);
    }
}
