//! What clients have machines do beside their nodes: queries, say, that read a snapshot.
//!
//! IN: work, in ns of one core. OUT: a wake for its client when it is done. KEEPS: a machine's cores are not used
//! twice: what the node's steps and computations take while a work is under way, the work does not get. Works of
//! one machine are done one after another, each by all cores.

use super::Work;
use super::client::{Client, ClientEvent, ClientRef};
use super::event_loop::{EventLoop, Happening};
use base::NodeId;
use base::process::Process;

impl<P: Process, C: Client<P> + ?Sized> EventLoop<P, C> {
    pub(super) fn begin_work(&mut self, node: NodeId, client: ClientRef, cpu_ns: u64, number: u64) {
        let host = self.host(node);
        host.work.push_back(Work { client, number, left_ns: cpu_ns });
        if host.work.len() == 1 {
            self.next_work(node);
        }
    }

    /// The first work in the queue begins.
    fn next_work(&mut self, node: NodeId) {
        let (now, cores) = (self.now, u64::from(self.conditions.cost.cores.max(1)));
        let host = self.host(node);
        let Some(work) = host.work.front() else { return };
        host.work_began = (now, host.used_ns);
        let at = now + work.left_ns / cores;
        self.push(at, Happening::Worked { node });
    }

    /// It would be done by now if it had had the machine for itself.
    pub(super) fn worked(&mut self, node: NodeId) {
        let (now, cores) = (self.now, u64::from(self.conditions.cost.cores.max(1)));
        let host = self.host(node);
        let (began, used_ns) = host.work_began;
        let got_ns = (cores * now.since(began)).saturating_sub(host.used_ns - used_ns);
        let work = host.work.front_mut().expect("it is under way");
        work.left_ns = work.left_ns.saturating_sub(got_ns);
        // Less than a ns on each core is nothing.
        if work.left_ns >= cores {
            return self.next_work(node);
        }
        let work = host.work.pop_front().expect("just seen");
        self.tell(now, work.client, ClientEvent::Wake(work.number));
        self.next_work(node);
    }
}
