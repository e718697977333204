//! All nodes of a topology in one process, in real time, with the WAN between them emulated.
//!
//! A message between two nodes arrives one-way delay later, in order of sending per link (equal delays
//! keep it); delays come from [`Topology`] and can be scaled. Each node has a clock of its own; all show the same until
//! some are led astray. Nothing is lost on the way, except what goes to
//! a halted node: the simulator does the rest, with the same node.

use crate::clock::Clock;
use crate::host::{Host, Links};
use crate::record_log::Recovered;
use base::process::{Event, Process, Recorded};
use base::topology::Topology;
use base::{NodeId, RegionId, Time};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// A node's clock is recorded a second ahead.
const WAITS_FOR_CLOCK: Duration = Duration::from_millis(1_500);

/// A running cluster; dropping it stops every node.
pub struct LocalCluster<P: Process + Send + 'static> {
    hosts: Vec<Arc<Host<P>>>,
    threads: Vec<JoinHandle<()>>,
    topology: Arc<Topology>,
}

struct Wires<P: Process + Send + 'static> {
    topology: Arc<Topology>,
    hosts: Vec<Weak<Host<P>>>,
}

impl<P: Process + Send + 'static> Links<P> for Wires<P> {
    fn send(&self, now: Time, from: NodeId, to: NodeId, message: P::Message) {
        let Some(host) = self.hosts[to.0 as usize].upgrade() else { return };
        // By the clock of whom it goes to.
        let own_ns = self.hosts[from.0 as usize].upgrade().map_or(0, |host| host.clock_offset_ns());
        let at = now + self.topology.one_way_ns(from, to);
        let at = Time(at.0.saturating_add_signed(host.clock_offset_ns() - own_ns));
        host.deliver(at, Event::Message { from, message });
    }
    /// Nodes of one region share their memory; between regions there is a distance.
    fn load(&self, by: NodeId, of: NodeId, message: &P::Message) -> Option<P::Message> {
        if self.topology.region_of(by) != self.topology.region_of(of) {
            return None;
        }
        self.hosts[usize::from(of.0)].upgrade()?.load(message)
    }
}

impl<P: Process + Send + 'static> LocalCluster<P> {
    /// Starts one host per node of the topology; `make` builds each node.
    pub fn start(topology: Arc<Topology>, mut make: impl FnMut(NodeId) -> P) -> LocalCluster<P> {
        let clock = Clock::new();
        let hosts = topology.node_ids().map(|id| Host::new(id, make(id), clock.another())).collect();
        LocalCluster::run(topology, hosts)
    }

    /// The same, where each node keeps records. Their clocks show more than they may have shown before: for a moment that
    /// is waited for, and beyond it, where the machine's clock was set back, they are ahead of it from now on.
    pub fn start_with_records(topology: Arc<Topology>, nodes: Vec<Recovered<P>>) -> LocalCluster<P>
    where
        P: Recorded,
    {
        assert_eq!(nodes.len(), topology.nodes.len(), "one log per node");
        let least = nodes.iter().map(|node| node.clock).max().unwrap_or(Time::ZERO);
        let clock = Clock::after(least, WAITS_FOR_CLOCK);
        let host = |(id, node): (NodeId, Recovered<P>)| {
            Host::with_records(id, node.process, clock.another(), node.log)
        };
        let hosts = topology.node_ids().zip(nodes).map(host).collect();
        LocalCluster::run(topology, hosts)
    }

    fn run(topology: Arc<Topology>, hosts: Vec<Arc<Host<P>>>) -> LocalCluster<P> {
        let wires: Arc<Wires<P>> =
            Arc::new(Wires { topology: topology.clone(), hosts: hosts.iter().map(Arc::downgrade).collect() });
        let threads = hosts.iter().map(|host| host.start(wires.clone())).collect();
        LocalCluster { hosts, threads, topology }
    }

    pub fn host(&self, node: NodeId) -> &Arc<Host<P>> {
        &self.hosts[node.0 as usize]
    }
    pub fn hosts(&self) -> &[Arc<Host<P>>] {
        &self.hosts
    }
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Stops every node of a region, as if its machines had lost power.
    pub fn kill(&self, region: RegionId) {
        self.hosts_of(region).for_each(|host| host.halt());
    }
    /// Lets the nodes of a killed region go on.
    pub fn heal(&self, region: RegionId) {
        self.hosts_of(region).for_each(|host| host.resume());
    }
    /// Lets nodes that know nothing take the places of a killed region's.
    pub fn begin_again(&self, region: RegionId, mut make: impl FnMut(NodeId) -> P) {
        self.hosts_of(region).for_each(|host| host.begin_again(make(host.id())));
    }
    /// Leads the clocks of a region's nodes astray by so many ns; 0 leads them back. It takes four times as long.
    pub fn skew(&self, region: RegionId, offset_ns: i64) {
        self.hosts_of(region).for_each(|host| host.lead_clock_astray(offset_ns));
    }
    pub fn hosts_of(&self, region: RegionId) -> impl Iterator<Item = &Arc<Host<P>>> {
        self.hosts.iter().filter(move |host| self.topology.region_of(host.id()) == region)
    }
}

impl<P: Process + Send + 'static> Drop for LocalCluster<P> {
    fn drop(&mut self) {
        self.hosts.iter().for_each(|host| host.stop());
        for thread in self.threads.drain(..) {
            // A driver never panics: steps are fenced.
            _ = thread.join();
        }
        self.hosts.iter().for_each(|host| host.join_writers());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::RequestId;
    use base::process::Effects;
    use base::time::MS;
    use base::wan::Wan;

    /// Answers a request after a round trip to another node.
    struct Echo {
        other: NodeId,
        steps: u64,
    }

    impl Process for Echo {
        type Message = (u64, bool);
        type Timer = ();
        type Request = &'static str;
        type Reply = Time;
        type Computed = ();
        fn step(&mut self, now: Time, event: Event<Self>, out: &mut Effects<Self>) {
            self.steps += 1;
            match event {
                Event::Request { request: "panic", .. } => panic!("as asked"),
                Event::Request { id, request: "here" } => out.reply(id, now),
                Event::Request { id, .. } => out.send(self.other, (id.0, false)),
                Event::Message { from, message: (id, false) } => out.send(from, (id, true)),
                Event::Message { message: (id, true), .. } => out.reply(RequestId(id), now),
                _ => {}
            }
        }
    }

    fn cluster() -> LocalCluster<Echo> {
        let topology = Topology::one_node_per_region(Wan::uniform("t", &["a", "b"], MS, 30 * MS), 1);
        LocalCluster::start(Arc::new(topology), |id| Echo { other: NodeId(1 - id.0), steps: 0 })
    }

    #[tokio::test]
    async fn a_round_trip_takes_the_wan_s_time_and_a_local_answer_none() {
        let cluster = cluster();
        let host = cluster.host(NodeId(0));
        assert_eq!(cluster.topology().region_of(host.id()), RegionId(0));
        let start = host.now();
        host.request("here").await.unwrap();
        let answered = host.request("there").await.unwrap();
        assert!(answered.since(start) >= 30 * MS, "{}", answered.since(start));
    }

    #[tokio::test]
    async fn what_a_node_publishes_is_known_before_the_answer_and_read_while_it_is_busy() {
        let cluster = cluster();
        let host = cluster.host(NodeId(0)).clone();
        let published = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let seen = published.clone();
        host.watch(move |echo| seen.store(echo.steps, std::sync::atomic::Ordering::SeqCst));
        let steps = || published.load(std::sync::atomic::Ordering::SeqCst);
        let before = steps();
        host.request("here").await.unwrap();
        assert!(steps() > before, "whoever is answered finds what the step published");
        // While somebody has the node, which a look at the node itself would wait for.
        host.inspect(|echo| assert_eq!(steps(), echo.steps));
    }

    #[tokio::test]
    async fn a_node_that_breaks_an_invariant_stops_and_says_so() {
        let cluster = cluster();
        let host = cluster.host(NodeId(0)).clone();
        let waiting = tokio::spawn({
            let host = host.clone();
            async move { host.request("there").await }
        });
        tokio::task::yield_now().await;
        assert_eq!(host.request("panic").await, Err(Gone));
        assert_eq!(waiting.await.unwrap(), Err(Gone));
        assert_eq!(host.request("here").await, Err(Gone));
        assert!(cluster.host(NodeId(1)).request("here").await.is_ok(), "the other goes on");
    }

    #[tokio::test]
    async fn a_killed_region_answers_nobody_loses_its_messages_and_goes_on_when_it_is_healed() {
        let cluster = cluster();
        let (here, there) = (cluster.host(NodeId(0)).clone(), RegionId(1));
        let lost = tokio::spawn({
            let here = here.clone();
            async move { here.request("there").await }
        });
        tokio::task::yield_now().await;
        cluster.kill(there);
        assert_eq!(cluster.host(NodeId(1)).request("here").await, Err(Gone));
        assert!(!cluster.host(NodeId(1)).is_gone(), "it may come back");
        let waits = std::time::Duration::from_millis(100);
        assert!(tokio::time::timeout(waits, lost).await.is_err(), "its message was lost");
        // What is told to a halted node waits for it.
        cluster.host(NodeId(1)).tell("here");
        cluster.heal(there);
        assert!(cluster.host(NodeId(1)).request("here").await.is_ok());
        assert!(here.request("there").await.is_ok());
    }

    #[tokio::test]
    async fn a_killed_region_may_go_on_with_nodes_that_know_nothing() {
        let cluster = cluster();
        cluster.kill(RegionId(1));
        cluster.begin_again(RegionId(1), |_| Echo { other: NodeId(1), steps: 0 });
        let host = cluster.host(NodeId(1)).clone();
        assert!(host.request("here").await.is_ok());
        // This one talks to itself.
        let start = host.now();
        let answered = host.request("there").await.unwrap();
        assert!(answered.since(start) < 30 * MS, "{}", answered.since(start));
        assert!(cluster.host(NodeId(0)).request("there").await.is_ok(), "others reach it");
    }

    #[tokio::test]
    async fn a_region_s_clock_runs_off_and_comes_back_and_delays_stay_what_they_are() {
        let cluster = cluster();
        let (here, there) = (cluster.host(NodeId(0)).clone(), cluster.host(NodeId(1)).clone());
        cluster.skew(RegionId(1), 20 * MS as i64);
        let off_by = || there.now().0 as i64 - here.now().0 as i64;
        while off_by() < 19 * MS as i64 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let start = here.now();
        here.request("there").await.unwrap();
        let took = here.now().since(start);
        assert!(took >= 30 * MS, "{took}");
        cluster.skew(RegionId(1), 0);
        while off_by() > MS as i64 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn the_clients_of_a_killed_region_are_told() {
        let cluster = cluster();
        let here = cluster.host(NodeId(0)).clone();
        let waiting = tokio::spawn({
            let here = here.clone();
            async move { here.request("there").await }
        });
        tokio::task::yield_now().await;
        cluster.kill(RegionId(0));
        assert_eq!(waiting.await.unwrap(), Err(Gone));
    }

    /// Many threads ask at once, so that most find the node taken: each gets its own reply, once, and those
    /// who give up before they are answered cost nobody anything.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn requests_that_find_the_node_taken_are_answered_by_whoever_has_it() {
        let cluster = cluster();
        let host = cluster.host(NodeId(0)).clone();
        let clients = (0..16).map(|client| {
            let host = host.clone();
            tokio::spawn(async move {
                for round in 0..500 {
                    if (client + round) % 7 == 0 {
                        // Given up at once, or a moment later.
                        _ = tokio::time::timeout(std::time::Duration::ZERO, host.request("there")).await;
                    } else {
                        host.request("here").await.unwrap();
                    }
                }
            })
        });
        // A request that is forgotten would wait for ever.
        let all = async {
            for client in clients.collect::<Vec<_>>() {
                client.await.unwrap();
            }
            host.request("there").await
        };
        let done = tokio::time::timeout(std::time::Duration::from_secs(60), all).await;
        assert!(done.expect("every request is answered").is_ok());
    }
    use crate::host::Gone;
}
