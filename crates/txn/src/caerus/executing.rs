//! Executions, and what else takes several steps of the node.

use super::state::Caerus;
use super::work::{Out, Todo};
use crate::engine::Executor;
use crate::graph::vertex::Ref;
use base::Time;

impl Caerus {
    /// Whether a copy or an execution that takes several steps is under way.
    pub(super) fn is_unfinished(&self) -> bool {
        self.life.is_running() && (self.life.donor.goes_on() || self.scheduler.next_unfinished().is_some())
    }

    /// The next step of what takes several.
    pub(super) fn go_on(&mut self, now: Time, executor: &mut dyn Executor, out: &mut Out) {
        self.go_on_giving(executor, out);
        if let Some(at) = self.scheduler.next_unfinished() {
            self.execute(now, at, executor, out);
        }
        self.settle(now, executor, out);
    }

    pub(super) fn execute(&mut self, now: Time, at: Ref, executor: &mut dyn Executor, out: &mut Out) {
        let mut todo = Todo::new(&self.cluster, &mut self.work, out);
        let graph = (&*self.cluster, &mut self.merger, &mut self.outcomes);
        if let Some(executed) = self.scheduler.execute(now, graph, at, executor, &mut todo) {
            self.show(now, executed, out);
        }
    }
}
