//! Messages that nodes have refused, because no correct node sends them, in the server's log.
//!
//! IN: how many each node has refused, by sender and reason. OUT: a warning for the first one, and again each time that
//! there are twice as many: a peer that never stops fills no disk.

use crate::member::Served;
use base::NodeId;
use runtime::Host;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many messages of whom nodes had refused and why, when it was last told.
pub type Refusals = BTreeMap<(NodeId, NodeId, &'static str), u64>;

pub fn log_refusals<P: Served>(hosts: &[Arc<Host<P>>], known: &mut Refusals) {
    for host in hosts.iter().filter(|host| !host.is_gone()) {
        for ((from, reason), count) in host.inspect(|served| served.node().refused_messages()) {
            let told = known.entry((host.id(), from, reason)).or_default();
            if count >= (2 * *told).max(1) {
                *told = count;
                tracing::warn!(node = %host.id(), %from, messages = count, "refused messages: {reason}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::DatabaseNode;
    use crate::member::tests::cluster;
    use base::Time;
    use base::process::Event;
    use node::message::Message;
    use std::io::Write;
    use std::sync::Mutex;
    use std::time::{Duration, Instant};
    use txn::any;
    use txn::caerus::{self, SequenceId};

    /// What has been written to the log.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        /// What a look at these hosts adds to it.
        fn of(&self, hosts: &[Arc<Host<DatabaseNode>>], known: &mut Refusals) -> String {
            let log = self.clone();
            let subscriber =
                tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
            tracing::subscriber::with_default(subscriber, || log_refusals(hosts, known));
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    #[test]
    fn a_refused_message_is_logged_and_more_of_them_once_they_are_twice_as_many() {
        let cluster = cluster();
        let host = &cluster.hosts()[0];
        let refused = || host.inspect(|node| node.refused_messages().into_values().sum::<u64>());
        let receive = |count: u64| {
            let expected = refused() + count;
            for _ in 0..count {
                // A term that nobody can have reached.
                let suspect = caerus::Message::Suspect { sequence: SequenceId(0), term: u64::MAX };
                let message = Message::Engine(any::Message::Caerus(suspect));
                host.deliver(Time::ZERO, Event::Message { from: NodeId(1), message });
            }
            let begin = Instant::now();
            while refused() < expected {
                assert!(begin.elapsed() < Duration::from_secs(10), "nothing is refused");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let (log, mut known) = (Log::default(), Refusals::new());
        let mut look = || log.of(cluster.hosts(), &mut known);
        assert_eq!(look(), "", "nothing has been refused");
        for (more, told) in [(1, Some(1)), (0, None), (2, Some(3)), (2, None), (1, Some(6))] {
            receive(more);
            let line = look();
            let Some(told) = told else {
                assert_eq!(line, "", "after {more} more");
                continue;
            };
            assert_eq!(line.lines().count(), 1, "{line}");
            let says = format!("refused messages: a term too far ahead node=n0 from=n1 messages={told}");
            assert!(line.contains("WARN") && line.contains(&says), "{line}");
        }
    }
}
