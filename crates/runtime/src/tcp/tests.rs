//! Two nodes over real connections, and others that want to be taken for them.

mod certificates;
mod replicas;

use super::*;
use crate::data_dir::tests::Scratch;
use crate::{Clock, Host};
use base::process::{Effects, Event, Process};
use base::{NodeId, RequestId};
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Answers a request with what the other node has counted of its messages.
struct Counter {
    other: NodeId,
    counted: u64,
}

impl Process for Counter {
    type Message = (u64, Option<u64>, Vec<u8>);
    type Timer = ();
    type Request = usize;
    type Reply = u64;
    type Computed = ();
    fn step(&mut self, _: base::Time, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            // The last of several tells how many came.
            Event::Request { id, request } => {
                out.send_all(vec![self.other, self.other], (id.0, None, vec![0; request]));
            }
            Event::Message { from, message: (id, None, _) } => {
                self.counted += 1;
                out.send(from, (id, Some(self.counted), Vec::new()));
            }
            Event::Message { message: (id, Some(counted), _), .. } => out.reply(RequestId(id), counted),
            _ => {}
        }
    }
}

/// An authority, made for a test.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: rustls::pki_types::CertificateDer<'static>,
    root_pem: String,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        params.distinguished_name.push(DnType::CommonName, name);
        let root = params.self_signed(&key).unwrap();
        let (root, root_pem) = (root.der().clone(), root.pem());
        Authority { issuer: Issuer::new(params, key), root, root_pem }
    }
    fn tls(&self, owner: Owner) -> Security {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![owner.dns_name()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Security::Tls(Tls::new(roots, vec![certificate], key).unwrap())
    }
    fn node(&self, n: u16) -> Security {
        self.tls(Owner::Node(format!("n{n}")))
    }
}

fn hello(n: u16, lives: &Lives) -> Hello {
    Hello {
        purpose: Purpose::Messages,
        cluster: "c".into(),
        node: NodeId(n),
        name: format!("n{n}"),
        settings: vec![("--engine".into(), "caerus".into())],
        topology_digest: 1,
        life: Life { directory: 100 + u64::from(n), starts: lives.starts(), process: u64::from(n) },
        program: "test".into(),
        about: String::new(),
    }
}

/// A running node.
struct Running {
    host: Arc<Host<Counter>>,
    links: Arc<TcpLinks>,
    network: Network,
    driver: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(
        n: u16,
        network: Network,
        addresses: [SocketAddr; 2],
        security: Security,
        directory: &Scratch,
        change: impl FnOnce(&mut Hello),
    ) -> Running {
        let lives = Lives::begin(&directory.0).unwrap();
        let mut hello = hello(n, &lives);
        change(&mut hello);
        let nodes = (0..2).map(|n| (format!("n{n}"), addresses[n].to_string())).collect();
        let links = Arc::new(TcpLinks::new(TcpOptions {
            hello,
            nodes,
            left: Vec::new(),
            places: 0,
            own_places: Vec::new(),
            security,
            lives,
        }));
        let node = Counter { other: NodeId(1 - n), counted: 0 };
        let host = Host::new(NodeId(n), node, Clock::new());
        let driver = Some(host.start(links.clone()));
        let mut network = network;
        links.answer_status(|| b"well".to_vec());
        network.start(&links, &host);
        Running { host, links, network, driver }
    }
    fn wait_for(&self, what: &str, is_so: impl Fn(&PeerStatus) -> bool) {
        let begin = Instant::now();
        while !is_so(&self.links.peers()[0]) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}: {:?}", self.links.peers());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    fn wait_connected(&self) {
        self.wait_for("connected", |peer| peer.sends && peer.receives);
    }
    /// Why it cannot send.
    fn why(&self) -> String {
        self.wait_for("refused", |peer| peer.why.is_some());
        self.links.peers()[0].why.clone().unwrap()
    }
    async fn ask(&self, bytes: usize) -> u64 {
        let asked = self.host.request(bytes);
        tokio::time::timeout(Duration::from_secs(20), asked).await.expect("it is answered").unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.host.stop();
        _ = self.driver.take().map(std::thread::JoinHandle::join);
    }
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Once the former network there is closed, which happens in the background.
fn bind_again(at: SocketAddr) -> Network {
    let begin = Instant::now();
    loop {
        match Network::bind(at) {
            Ok(network) => return network,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{at}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two networks, and their addresses.
fn two() -> ([Network; 2], [SocketAddr; 2]) {
    let networks = [(); 2].map(|()| Network::bind(any()).unwrap());
    let addresses = [networks[0].address(), networks[1].address()];
    (networks, addresses)
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_go_both_ways_in_order_and_a_node_that_comes_back_is_connected_again() {
    let ([one, other], at) = two();
    let scratch = [Scratch::new(), Scratch::new()];
    let authority = Authority::new("ours");
    let first = Running::start(0, one, at, authority.node(0), &scratch[0], |_| ());
    let second = Running::start(1, other, at, authority.node(1), &scratch[1], |_| ());
    first.wait_connected();
    second.wait_connected();
    // Two messages go out for each; the reply comes upon the first.
    assert_eq!(first.ask(10).await, 1);
    // Larger than what is read and written at once.
    assert_eq!(first.ask(1 << 20).await, 3);
    assert_eq!(second.ask(10).await, 1);
    first.wait_for("measured", |peer| peer.round_trip_ns.is_some());
    assert!(first.links.has_met_all());
    drop(second);
    first.wait_for("gone", |peer| !peer.sends && !peer.receives);
    let network = bind_again(at[1]);
    let second = Running::start(1, network, at, authority.node(1), &scratch[1], |_| ());
    first.wait_connected();
    second.wait_connected();
    assert_eq!(first.ask(10).await, 1);
    let hello = hello(0, &Lives::begin(&Scratch::new().0).unwrap());
    let operator = authority.tls(Owner::Client("root".into()));
    let hello = Hello { purpose: Purpose::Status, ..hello };
    let status = ask::ask(&operator, "n0", &at[0].to_string(), &hello).await;
    assert_eq!(status.map(|answered| answered.bytes), Ok(b"well".to_vec()));
}

#[test]
fn a_node_that_has_left_is_neither_waited_for_nor_told_of() {
    let scratch = Scratch::new();
    let links = |left: Vec<NodeId>| {
        let lives = Lives::begin(&scratch.0).unwrap();
        TcpLinks::new(TcpOptions {
            hello: hello(0, &lives),
            nodes: (0..3).map(|n| (format!("n{n}"), format!("127.0.0.1:{}", n + 1))).collect(),
            left,
            places: 0,
            own_places: Vec::new(),
            security: Security::Plain,
            lives,
        })
    };
    assert_eq!(links(Vec::new()).unmet(), ["n1", "n2"]);
    let links = links(vec![NodeId(1)]);
    assert_eq!(links.unmet(), ["n2"]);
    assert_eq!(links.peers().len(), 1);
    assert!(links.peer_named("n1").is_none() && links.peer_named("n2").is_some());
}

#[test]
fn a_node_of_another_authority_or_with_another_s_certificate_is_refused() {
    let ([one, other], at) = two();
    let scratch = [Scratch::new(), Scratch::new()];
    let authority = Authority::new("ours");
    let first = Running::start(0, one, at, authority.node(0), &scratch[0], |_| ());
    let stranger = Running::start(1, other, at, Authority::new("theirs").node(1), &scratch[1], |_| ());
    assert!(stranger.why().contains("UnknownIssuer"), "{}", stranger.why());
    drop(stranger);
    // A client's certificate is good for no node, and neither is another node's.
    for (owner, part) in
        [(Owner::Client("n1".into()), "of client n1"), (Owner::Node("n2".into()), "is of n2")]
    {
        let network = bind_again(at[1]);
        let stranger = Running::start(1, network, at, authority.tls(owner), &scratch[1], |_| ());
        assert!(stranger.why().contains(part), "{}", stranger.why());
        assert!(!first.links.peers()[0].receives);
    }
}

#[test]
fn what_differs_is_said_to_who_is_refused_and_a_known_node_s_double_must_not_go_on() {
    let ([one, other], at) = two();
    let scratch = [Scratch::new(), Scratch::new()];
    let first = Running::start(0, one, at, Security::Plain, &scratch[0], |_| ());
    let second = Running::start(1, other, at, Security::Plain, &scratch[1], |_| ());
    first.wait_connected();
    drop(second);
    type Change = fn(&mut Hello);
    let changes: [(Change, &str, bool); 6] = [
        (|hello| hello.cluster = "d".into(), "belongs to cluster d and this node to cluster c", false),
        (|hello| hello.settings[0].1 = "slog".into(), "--engine is slog and here it is caerus", false),
        (|hello| hello.topology_digest = 2, "topology has digest", false),
        (|hello| hello.name = "n0".into(), "two processes have one identity", false),
        (|hello| hello.life.directory = 7, "is known with the data directory made at 101 ns", true),
        (|hello| hello.life.starts = 0, "it is start 0 of node n1", true),
    ];
    for (change, part, ends) in changes {
        let network = bind_again(at[1]);
        let double = Running::start(1, network, at, Security::Plain, &scratch[1], change);
        assert!(double.why().contains(part), "{}", double.why());
        assert_eq!(double.links.ended().is_some(), ends, "{part}");
        assert!(!first.links.peers()[0].receives, "{part}");
    }
    assert_eq!(first.links.ended(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_its_connection_and_a_newer_connection_ends_an_older_one() {
    let ([one, _], at) = two();
    let scratch = [Scratch::new(), Scratch::new()];
    let first = Running::start(0, one, at, Security::Plain, &scratch[0], |_| ());
    let hello = hello(1, &Lives::begin(&scratch[1].0).unwrap());
    let connect = || async {
        let mut stream = tokio::net::TcpStream::connect(at[0]).await.unwrap();
        handshake::say_hello(&mut stream, &hello).await.unwrap();
        handshake::hear_hello(&mut stream).await.unwrap();
        first.wait_for("taken", |peer| peer.receives);
        stream
    };
    let frame = |number: u64, body: &[u8]| {
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.push(frame::FrameKind::Message as u8);
        bytes.extend(number.to_le_bytes());
        bytes.extend(body);
        bytes
    };
    let message = base::codec::encode(&(1u64, None::<u64>, Vec::<u8>::new()));
    let twice = [frame(0, &message), frame(0, &message)].concat();
    let mut too_long = frame(0, &message);
    too_long[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let noise: Vec<u8> = (0..500u32).map(|n| (n * 7919 >> 3) as u8).collect();
    for bytes in [twice, too_long, frame(0, b"no message"), frame(0, &[]), noise] {
        let mut stream = connect().await;
        stream.write_all(&bytes).await.unwrap();
        let mut rest = Vec::new();
        // Reset or closed, but over.
        _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest))
            .await
            .expect("ended");
        first.wait_for("ended", |peer| !peer.receives);
    }
    let older = connect().await;
    let mut newer = connect().await;
    newer.write_all(&frame(0, &message)).await.unwrap();
    first.wait_for("heard", |peer| peer.messages_received >= 2);
    assert!(!first.host.is_gone());
    drop((older, newer));
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_that_say_nothing_keep_nobody_out() {
    let ([one, other], at) = two();
    let scratch = [Scratch::new(), Scratch::new()];
    let first = Running::start(0, one, at, Security::Plain, &scratch[0], |_| ());
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(at[0]).await.unwrap());
    }
    let second = Running::start(1, other, at, Security::Plain, &scratch[1], |_| ());
    first.wait_connected();
    second.wait_connected();
    assert_eq!(second.network.address(), at[1]);
}

async fn order(
    at: SocketAddr,
    security: &Security,
    purpose: Purpose,
    n: u16,
) -> Result<ask::Ordered, String> {
    let hello = Hello { purpose, ..hello(n, &Lives::begin(&Scratch::new().0).unwrap()) };
    let answered = ask::ask(security, "n0", &at.to_string(), &hello).await?;
    Ok(base::codec::decode(&answered.bytes).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_ends_when_its_operator_wants_it_and_not_when_another_client_does() {
    let ([one, _], at) = two();
    let (scratch, authority) = (Scratch::new(), Authority::new("ours"));
    let first = Running::start(0, one, at, authority.node(0), &scratch, |_| ());
    let drain = |client: &str| {
        let security = authority.tls(Owner::Client(client.into()));
        async move { order(at[0], &security, Purpose::Drain, 1).await }
    };
    assert!(drain("root").await.unwrap().unwrap_err().contains("has not recovered yet"));
    first.links.drain_when_told(|| Ok(()));
    assert_eq!(drain("root").await.unwrap(), Ok(1));
    assert!(drain("ann").await.unwrap_err().contains("is not good for this"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_directory_is_given_up_by_its_own_node_only_and_not_while_it_runs() {
    let ([one, other], at) = two();
    let (scratch, authority) = ([Scratch::new(), Scratch::new()], Authority::new("ours"));
    let first = Running::start(0, one, at, authority.node(0), &scratch[0], |_| ());
    let second = Running::start(1, other, at, authority.node(1), &scratch[1], |_| ());
    first.wait_connected();
    let replace = |owner: Owner| {
        let security = authority.tls(owner);
        async move { order(at[0], &security, Purpose::Replace, 1).await }
    };
    let own = || Owner::Node("n1".into());
    assert!(replace(own()).await.unwrap_err().contains("it runs, with the directory"));
    drop(second);
    first.wait_for("gone", |peer| !peer.sends && !peer.receives);
    for (owner, part) in [
        (Owner::Node("n2".into()), "its certificate is of n2"),
        (Owner::Client("root".into()), "is not good for this"),
    ] {
        let refused = replace(owner).await.unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
    let lost = |hello: &mut Hello| (hello.life.directory, hello.life.starts) = (7, 2);
    let refused = Running::start(1, bind_again(at[1]), at, authority.node(1), &scratch[1], lost);
    assert!(refused.why().contains("`meridian cluster replace` prepares a new one"), "{}", refused.why());
    drop(refused);
    assert_eq!(replace(own()).await.unwrap(), Ok(1));
    let new = Running::start(1, bind_again(at[1]), at, authority.node(1), &scratch[1], lost);
    first.wait_connected();
    assert_eq!(new.links.ended(), None);
}
