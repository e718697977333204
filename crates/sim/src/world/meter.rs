//! Work that a node's parts report themselves, beside what [`Cost`](super::Cost) charges for events and bytes: executing a
//! transaction, say.
//!
//! KEEPS: what is added during a step is charged to that step. A step runs on one thread, so each thread counts for itself.

use std::cell::Cell;

thread_local!(static ADDED_NS: Cell<u64> = const { Cell::new(0) });

/// Adds to what the step costs that this thread is at.
pub fn add(ns: u64) {
    ADDED_NS.set(ADDED_NS.get() + ns);
}

/// What was added since the last time.
pub(super) fn take() -> u64 {
    ADDED_NS.take()
}

#[cfg(test)]
mod tests {
    use crate::world::{Setup, World, meter};
    use base::process::{Effects, Event, Process};
    use base::topology::Topology;
    use base::wan::Wan;
    use base::{NodeId, Time};

    /// Tells the other node when it has started, after some work.
    struct Worker(NodeId, Option<Time>);

    impl Process for Worker {
        type Message = ();
        type Timer = ();
        type Request = ();
        type Reply = ();
        type Computed = ();
        fn step(&mut self, now: Time, event: Event<Worker>, out: &mut Effects<Worker>) {
            match event {
                Event::Start if self.0 == NodeId(1) => {
                    meter::add(700);
                    out.send(self.0, ());
                }
                Event::Message { .. } => self.1 = Some(now),
                _ => {}
            }
        }
    }

    #[test]
    fn metered_work_delays_what_its_step_sends() {
        let wan = Wan::uniform("test", &["a", "b"], 100, 100);
        let topology = Topology::one_node_per_region(wan, 1);
        let factory = |id: NodeId, _, _: &[Vec<u8>]| Worker(NodeId(1 - id.0), None);
        let mut world = World::new(Setup::calm(topology, 1), factory);
        let begin = world.now();
        world.run_until(begin + 10_000);
        assert_eq!(world.node(NodeId(1)).and_then(|node| node.1), Some(begin + 750));
        assert_eq!((world.used_ns(NodeId(0)), world.used_ns(NodeId(1))), (700, 0));
    }
}
