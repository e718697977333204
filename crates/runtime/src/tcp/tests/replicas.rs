//! Replicas that connect to a node, and others that would like to be taken for them.

use super::*;
use crate::tcp::ask::ask;
use base::codec;

const PLACES: usize = 2;

/// A node with places for replicas.
struct Feeder {
    host: Arc<Host<Counter>>,
    links: Arc<TcpLinks>,
    _network: Network,
    address: SocketAddr,
    driver: Option<std::thread::JoinHandle<()>>,
    authority: Authority,
}

fn options(hello: Hello, address: SocketAddr, security: Security, lives: Lives) -> TcpOptions {
    let own_places = (1..=PLACES as u16).map(NodeId).collect();
    TcpOptions {
        hello,
        nodes: vec![("n0".into(), address.to_string())],
        left: Vec::new(),
        places: PLACES,
        own_places,
        security,
        lives,
    }
}

impl Feeder {
    fn start(directory: &Scratch) -> Feeder {
        let authority = Authority::new("test");
        let mut network = Network::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, lives) = (network.address(), Lives::begin(&directory.0).unwrap());
        let hello = hello(0, &lives);
        let links = Arc::new(TcpLinks::new(options(hello, address, authority.node(0), lives)));
        let host = Host::new(NodeId(0), Counter { other: NodeId(1), counted: 0 }, Clock::new());
        let driver = Some(host.start(links.clone()));
        network.start(&links, &host);
        links.tell_replicas(Ok("localhost:1".into()));
        Feeder { host, links, _network: network, address, driver, authority }
    }
    async fn register(&self, name: &str, owner: Owner) -> Result<Result<Registered, String>, String> {
        let words = Hello { purpose: Purpose::Register, ..replica_hello(name, NodeId(u16::MAX), 1) };
        let answered = ask(&self.authority.tls(owner), "n0", &self.address.to_string(), &words).await?;
        Ok(codec::decode(&answered.bytes).unwrap())
    }
    fn wait_for(&self, what: &str, is_so: impl Fn(&[ReplicaPeer]) -> bool) {
        let begin = Instant::now();
        while !is_so(&self.links.replicas()) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}: {:?}", self.links.replicas());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.host.stop();
        _ = self.driver.take().map(std::thread::JoinHandle::join);
    }
}

fn replica_hello(name: &str, node: NodeId, began: u64) -> Hello {
    let life = Life { directory: began, starts: 1, process: began };
    Hello { node, name: name.into(), life, ..hello(9, &Lives::of_process()) }
}

/// A replica's process.
struct Replica {
    host: Arc<Host<Counter>>,
    links: Arc<TcpLinks>,
    _network: Network,
    driver: Option<std::thread::JoinHandle<()>>,
}

impl Replica {
    fn start(feeder: &Feeder, name: &str, node: NodeId, owner: Owner, began: u64) -> Replica {
        let (security, hello) = (feeder.authority.tls(owner), replica_hello(name, node, began));
        let options = options(hello, feeder.address, security, Lives::of_process());
        let links = Arc::new(TcpLinks::new(TcpOptions { own_places: Vec::new(), ..options }));
        let host = Host::new(node, Counter { other: NodeId(0), counted: 0 }, Clock::new());
        let driver = Some(host.start(links.clone()));
        links.answer_calls(|body| async move { [&body[..], b" and back"].concat() });
        let mut network = Network::of_replica().unwrap();
        network.start(&links, &host);
        Replica { host, links, _network: network, driver }
    }
    fn why_ended(&self) -> String {
        let begin = Instant::now();
        loop {
            if let Some(why) = self.links.ended() {
                return why.to_string();
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", self.links.peers());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.host.stop();
        _ = self.driver.take().map(std::thread::JoinHandle::join);
    }
}

fn replica(name: &str) -> Owner {
    Owner::Replica(name.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_registers_and_messages_and_calls_reach_it_though_nobody_connects_to_it() {
    let directory = Scratch::new();
    let feeder = Feeder::start(&directory);
    let registered = feeder.register("a", replica("a")).await.unwrap().unwrap();
    assert_eq!(registered.sql, "localhost:1");
    assert!(!feeder.links.peer(registered.node).is_there(), "it has a number and has not come");
    assert_eq!(feeder.links.call(registered.node, b"early").await, None);
    let one = Replica::start(&feeder, "a", registered.node, replica("a"), 1);
    let is_whole = |all: &[ReplicaPeer]| all.iter().any(|peer| peer.way.sends && peer.way.receives);
    feeder.wait_for("both directions", is_whole);
    // A message goes to the node, and its answer comes back by the other connection.
    let counted = tokio::time::timeout(Duration::from_secs(20), one.host.request(100)).await;
    assert_eq!(counted.expect("it is answered").unwrap(), 1);
    let answer = feeder.links.call(registered.node, b"there").await.expect("it answers");
    assert_eq!(answer, &b"there and back"[..]);
    // Who is gone keeps its number for a while, and its callers do not wait for it.
    drop(one);
    feeder.wait_for("it is gone", |all| all.iter().all(|peer| !peer.way.sends && !peer.way.receives));
    assert_eq!(feeder.links.call(registered.node, b"late").await, None);
    assert_eq!(feeder.register("a", replica("a")).await.unwrap().unwrap(), registered);
    let other = feeder.register("b", replica("b")).await.unwrap().unwrap();
    assert_ne!(other.node, registered.node);
    let full = feeder.register("c", replica("c")).await.unwrap().unwrap_err();
    assert!(full.contains("no place for another one"), "{full}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_who_its_certificate_says_and_a_later_process_takes_its_place() {
    let directory = Scratch::new();
    let feeder = Feeder::start(&directory);
    for (name, owner) in
        [("a", Owner::Node("n0".into())), ("a", Owner::Client("root".into())), ("a", replica("b"))]
    {
        let refused = feeder.register(name, owner.clone()).await.unwrap_err();
        assert!(refused.contains("certificate"), "{owner}: {refused}");
    }
    let node = feeder.register("a", replica("a")).await.unwrap().unwrap().node;
    // Neither a replica's number with a node's certificate, nor with another replica's.
    for owner in [Owner::Node("a".into()), replica("b")] {
        let posing = Replica::start(&feeder, "a", node, owner, 1);
        let begin = Instant::now();
        let is_refused = |peer: &PeerStatus| peer.why.as_ref().is_some_and(|why| why.contains("certificate"));
        while !posing.links.peers().iter().any(is_refused) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", posing.links.peers());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!feeder.links.peer(node).is_there());
    }
    let first = Replica::start(&feeder, "a", node, replica("a"), 1);
    feeder.wait_for("the first", |all| all.iter().any(|peer| peer.way.sends && peer.way.receives));
    let second = Replica::start(&feeder, "a", node, replica("a"), 2);
    let why = first.why_ended();
    assert!(why.contains("another process is replica a, and began later"), "{why}");
    drop(first);
    let counted = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            // What was sent while the two changed may be lost.
            let asked = second.host.request(1);
            if let Ok(Ok(counted)) = tokio::time::timeout(Duration::from_millis(200), asked).await {
                return counted;
            }
        }
    });
    assert!(counted.await.expect("it is answered") > 0);
    let third = Replica::start(&feeder, "b", node, replica("b"), 3);
    let why = third.why_ended();
    assert!(why.contains("has by now; start b again"), "{why}");
    // A node serves no calls: whoever calls one is cut off.
    let called = tokio::time::timeout(Duration::from_secs(20), second.links.call(NodeId(0), b"x")).await;
    assert_eq!(called, Ok(None));
}
