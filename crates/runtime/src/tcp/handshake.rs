//! The first words on a connection between two nodes: who each is, and whether they belong together.
//!
//! The node that connects says [`Hello`]; the other one answers with its own, or with a refusal; then the first one
//! judges likewise. KEEPS:
//! 1. who a peer is comes from its certificate ([`super::tls`]); what it says of itself is compared with that;
//! 2. the preface (magic, format, status, length) never changes, so that programs of different formats understand each
//!    other's refusals;
//! 3. a refusal says what differs and what to do, and nothing is taken from who was refused;
//! 4. a node's data directory, unless it was given up ([`Purpose::Replace`]), is known by when it was made and by how often it was opened. A peer that comes with
//!    another directory, with an older life of the same, or as a second process in the same life is refused: each could
//!    break promises that the known one has given.

use base::NodeId;
use base::codec;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What travels between nodes: these frames, and messages in the encoding of `base::codec`.
pub const FORMAT: u16 = 3 << 8 | codec::VERSION as u16;

const MAGIC: &[u8; 8] = b"MERIDIAN";
const HELLO: u8 = 1;
const REFUSED: u8 = 2;
/// A hello or a refusal is no longer.
const WORDS_BYTES_MAX: u32 = 64 << 10;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// The sender's messages to the receiver.
    Messages,
    /// An operator asks how the node is.
    Status,
    /// An operator wants the node to drain and to end.
    Drain,
    /// The directory of another node, the sender, is lost: it comes back with a new one, and a copy of what others have.
    Replace,
    /// The receiver's messages to the sender, a replica, which nobody connects to.
    Follow,
    /// A replica's process asks for a node number in the receiver's region.
    Register,
    /// An operator wants a replica of the receiver's region to drain and to end.
    DrainReplica,
    /// An operator changes the nodes of the cluster; what the receiver is to do is said in [`Hello::about`].
    Change,
}

impl Purpose {
    /// The sender wants an answer and sends nothing else.
    pub fn is_question(self) -> bool {
        !matches!(self, Purpose::Messages | Purpose::Follow)
    }
}

/// Tells one process of a node from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Life {
    /// When the node's data directory was made, in ns since 1970.
    pub directory: u64,
    /// How often it has been opened since.
    pub starts: u64,
    /// Drawn by the process.
    pub process: u64,
}

/// What a node says of itself and of the cluster that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub purpose: Purpose,
    pub cluster: String,
    pub node: NodeId,
    pub name: String,
    /// What has to be the same at all nodes, by name, in order.
    pub settings: Vec<(String, String)>,
    pub topology_digest: u64,
    pub life: Life,
    /// The program's version, for whoever reads logs.
    pub program: String,
    /// What a question is about: the name of a replica, a step of a change; else nothing.
    pub about: String,
}

/// Why a peer is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Format {
        theirs: u16,
    },
    Cluster {
        theirs: String,
        ours: String,
    },
    Setting {
        name: String,
        theirs: String,
        ours: String,
    },
    Topology {
        theirs: u64,
        ours: u64,
    },
    /// The certificate is another node's than the one it says it is.
    Certificate {
        shows: String,
        says: String,
    },
    /// Not the node that was called.
    AnotherNode {
        found: String,
        wanted: String,
    },
    Myself {
        name: String,
    },
    AnotherDirectory {
        name: String,
        theirs: u64,
        known: u64,
    },
    FormerLife {
        name: String,
        theirs: u64,
        known: u64,
    },
    TwoProcesses {
        name: String,
    },
    /// An operator's certificate is needed, or a node's, and this is none.
    NotForThis {
        shows: String,
    },
    /// A node's directory is to be given up while the node runs.
    StillThere {
        name: String,
    },
    /// A replica comes with a node number that another one has.
    PlaceTaken {
        name: String,
        by: String,
    },
    /// A process of the same replica began later.
    LaterProcess {
        name: String,
    },
}

impl Refusal {
    /// Whether the refused node must not go on: the cluster knows another one in its place.
    pub fn ends_the_node(&self) -> bool {
        use Refusal::{AnotherDirectory, FormerLife, LaterProcess, PlaceTaken, TwoProcesses};
        matches!(
            self,
            AnotherDirectory { .. }
                | FormerLife { .. }
                | TwoProcesses { .. }
                | PlaceTaken { .. }
                | LaterProcess { .. }
        )
    }
}

fn shown_format(format: u16) -> String {
    format!("{}.{}", format >> 8, format & 0xff)
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Format { theirs } => {
                let (theirs, ours) = (shown_format(*theirs), shown_format(FORMAT));
                write!(
                    f,
                    "it speaks format {theirs} and this node {ours}; start the same version of meridian on both"
                )
            }
            Refusal::Cluster { theirs, ours } => write!(
                f,
                "it belongs to cluster {theirs} and this node to cluster {ours}; correct `cluster`, or the address, in \
                 its configuration"
            ),
            Refusal::Setting { name, theirs, ours } => write!(
                f,
                "its setting {name} is {theirs} and here it is {ours}; it has to be the same at all nodes: correct \
                 the configuration that is wrong"
            ),
            Refusal::Topology { theirs, ours } => write!(
                f,
                "its topology has digest {theirs:016x} and here it is {ours:016x}; start all nodes with the same \
                 regions, partitions and engine"
            ),
            Refusal::Certificate { shows, says } => write!(
                f,
                "it says that it is node {says} and its certificate is of {shows}; give node {says} its own \
                 certificate (meridian cert create-node {says})"
            ),
            Refusal::AnotherNode { found, wanted } => {
                write!(f, "node {found} answers at the address of node {wanted}; correct it in `nodes`")
            }
            Refusal::Myself { name } => write!(
                f,
                "it says that it is node {name}, as this process is: two processes have one identity; correct `node` \
                 in one configuration, or end one process"
            ),
            Refusal::AnotherDirectory { name, theirs, known } => write!(
                f,
                "node {name} is known with the data directory made at {known} ns and comes with another one, made at \
                 {theirs} ns; what it promised is in the first: start it there, or restore that directory; if it is lost for \
                 good, `meridian cluster replace` prepares a new one"
            ),
            Refusal::FormerLife { name, theirs, known } => write!(
                f,
                "it is start {theirs} of node {name}, and start {known} is known: an older process, or an old copy of \
                 its data directory; end it and use the directory that was started last"
            ),
            Refusal::TwoProcesses { name } => write!(
                f,
                "another process is node {name}, from a copy of the same data directory; end one of them and remove \
                 its copy"
            ),
            Refusal::StillThere { name } => {
                write!(
                    f,
                    "node {name} is connected here: it runs, with the directory to be given up; end it first"
                )
            }
            Refusal::PlaceTaken { name, by } => write!(
                f,
                "replica {name} comes with a number that replica {by} has by now; start {name} again, and it gets another"
            ),
            Refusal::LaterProcess { name } => {
                write!(f, "another process is replica {name}, and began later; end one of them, or rename it")
            }
            Refusal::NotForThis { shows } => write!(
                f,
                "its certificate, of {shows}, is not good for this; nodes connect with a node's certificate \
                 (meridian cert create-node), operators with a client's (meridian cert create-client root)"
            ),
        }
    }
}

/// Stands for the directory of a node whose own was given up: any other one may take its place, in a later life.
pub const GIVEN_UP: u64 = 0;

/// What is known of a peer's lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownLife {
    pub directory: u64,
    pub starts: u64,
    /// The process that was heard in that start, if it was in this process's time.
    pub process: Option<u64>,
}

impl Hello {
    /// Whether a peer belongs to the same cluster as the node that says `self`.
    pub fn check_cluster(&self, theirs: &Hello) -> Result<(), Refusal> {
        self.check_same_cluster(theirs)?;
        for (name, ours) in &self.settings {
            let found = theirs.settings.iter().find(|(theirs, _)| theirs == name);
            let theirs = found.map_or("not given", |(_, value)| value);
            if theirs != ours {
                let (name, theirs) = (name.clone(), theirs.to_string());
                return Err(Refusal::Setting { name, theirs, ours: ours.clone() });
            }
        }
        if theirs.topology_digest != self.topology_digest || theirs.settings.len() != self.settings.len() {
            let (theirs, ours) = (theirs.topology_digest, self.topology_digest);
            return Err(Refusal::Topology { theirs, ours });
        }
        Ok(())
    }

    /// Whether somebody means this cluster.
    pub fn check_same_cluster(&self, theirs: &Hello) -> Result<(), Refusal> {
        match theirs.cluster == self.cluster {
            true => Ok(()),
            false => Err(Refusal::Cluster { theirs: theirs.cluster.clone(), ours: self.cluster.clone() }),
        }
    }

    /// Whether a peer is who its certificate says, and no former or second one. `shown`: the node that its certificate
    /// names; `None` without TLS.
    pub fn check_node(
        &self,
        theirs: &Hello,
        shown: Option<&str>,
        known: Option<KnownLife>,
    ) -> Result<(), Refusal> {
        let name = theirs.name.clone();
        if let Some(shown) = shown.filter(|shown| *shown != name) {
            return Err(Refusal::Certificate { shows: shown.to_string(), says: name });
        }
        if theirs.node == self.node || name == self.name {
            return Err(Refusal::Myself { name });
        }
        let Some(known) = known else { return Ok(()) };
        let life = theirs.life;
        let is_given_up = known.directory == GIVEN_UP;
        if known.directory != life.directory && !is_given_up {
            return Err(Refusal::AnotherDirectory { name, theirs: life.directory, known: known.directory });
        }
        if life.starts < known.starts + u64::from(is_given_up) {
            return Err(Refusal::FormerLife { name, theirs: life.starts, known: known.starts });
        }
        if life.starts == known.starts && known.process.is_some_and(|process| process != life.process) {
            return Err(Refusal::TwoProcesses { name });
        }
        Ok(())
    }
}

/// Why there were no words.
#[derive(Debug)]
pub enum Broken {
    Io(std::io::Error),
    NotMeridian,
    Format {
        theirs: u16,
    },
    Malformed(String),
    /// In the other's words, and whether it means that this node must not go on.
    Refused {
        why: String,
        ends_the_node: bool,
    },
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Io(error) => f.write_str(&super::stream::why_broken(error)),
            Broken::NotMeridian => {
                f.write_str("what answers there is no node of meridian, or one without `insecure-nodes`")
            }
            Broken::Format { theirs } => write!(f, "{}", Refusal::Format { theirs: *theirs }),
            Broken::Malformed(why) => write!(f, "what it says of itself cannot be read: {why}"),
            Broken::Refused { why, .. } => write!(f, "refused there: {why}"),
        }
    }
}
impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Broken::Io(error)
    }
}

/// Preface and words.
fn words(status: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(FORMAT.to_le_bytes());
    bytes.push(status);
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

pub async fn say_hello(stream: &mut (impl AsyncWrite + Unpin), hello: &Hello) -> std::io::Result<()> {
    stream.write_all(&words(HELLO, &codec::encode(hello))).await?;
    stream.flush().await
}

pub async fn refuse(stream: &mut (impl AsyncWrite + Unpin), refusal: &Refusal) -> std::io::Result<()> {
    // Text of any version: a flag and a sentence.
    let mut body = vec![u8::from(refusal.ends_the_node())];
    body.extend(refusal.to_string().bytes());
    stream.write_all(&words(REFUSED, &body)).await?;
    stream.flush().await
}

pub async fn hear_hello(stream: &mut (impl AsyncRead + Unpin)) -> Result<Hello, Broken> {
    let mut preface = [0; 15];
    stream.read_exact(&mut preface).await?;
    let (magic, rest) = preface.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Broken::NotMeridian);
    }
    let format = u16::from_le_bytes([rest[0], rest[1]]);
    let (status, bytes) = (rest[2], u32::from_le_bytes([rest[3], rest[4], rest[5], rest[6]]));
    if bytes > WORDS_BYTES_MAX {
        return Err(Broken::Malformed(format!("{bytes} bytes; {WORDS_BYTES_MAX} are the most")));
    }
    if status == HELLO && format != FORMAT {
        return Err(Broken::Format { theirs: format });
    }
    let mut body = vec![0; bytes as usize];
    stream.read_exact(&mut body).await?;
    match (status, body.split_first()) {
        (HELLO, _) => codec::decode(&body).map_err(|error| Broken::Malformed(error.to_string())),
        (REFUSED, Some((flag, why))) => {
            let why = String::from_utf8_lossy(why).into_owned();
            Err(Broken::Refused { why, ends_the_node: *flag == 1 })
        }
        _ => Err(Broken::Malformed(format!("unknown status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(node: u16) -> Hello {
        Hello {
            purpose: Purpose::Messages,
            cluster: "one".into(),
            node: NodeId(node),
            name: format!("n{node}"),
            settings: vec![("--survive".into(), "1".into())],
            topology_digest: 7,
            life: Life { directory: 100, starts: 3, process: 9 },
            program: "0.1.0".into(),
            about: String::new(),
        }
    }
    const KNOWN: KnownLife = KnownLife { directory: 100, starts: 3, process: Some(9) };

    #[test]
    fn a_peer_of_the_same_cluster_is_taken_and_every_difference_is_named() {
        let ours = hello(0);
        assert_eq!(ours.check_cluster(&hello(1)), Ok(()));
        let refused = |theirs: Hello| ours.check_cluster(&theirs).unwrap_err().to_string();
        let said = refused(Hello { cluster: "two".into(), ..hello(1) });
        assert!(said.contains("cluster two") && said.contains("cluster one"), "{said}");
        let said = refused(Hello { settings: vec![("--survive".into(), "0".into())], ..hello(1) });
        assert!(said.contains("--survive is 0 and here it is 1"), "{said}");
        let said = refused(Hello { settings: Vec::new(), ..hello(1) });
        assert!(said.contains("--survive is not given"), "{said}");
        let said = refused(Hello { topology_digest: 8, ..hello(1) });
        assert!(said.contains("digest 0000000000000008 and here it is 0000000000000007"), "{said}");
    }

    #[test]
    fn who_a_peer_is_comes_from_its_certificate_and_only_its_latest_life_is_taken() {
        let ours = hello(0);
        let judge = |theirs: &Hello, shown, known| ours.check_node(theirs, shown, known);
        assert_eq!(judge(&hello(1), Some("n1"), None), Ok(()));
        assert_eq!(judge(&hello(1), None, Some(KNOWN)), Ok(()));
        assert!(matches!(judge(&hello(1), Some("n2"), None), Err(Refusal::Certificate { .. })));
        assert!(matches!(judge(&hello(0), Some("n0"), None), Err(Refusal::Myself { .. })));
        let live = |life: Life| Hello { life, ..hello(1) };
        let life = hello(1).life;
        let next = Life { starts: 4, process: 10, ..life };
        assert_eq!(judge(&live(next), None, Some(KNOWN)), Ok(()));
        let refused = |life| judge(&live(life), None, Some(KNOWN)).unwrap_err();
        let cases = [
            (Life { directory: 200, starts: 1, process: 10 }, "made at 200 ns"),
            (Life { starts: 2, ..life }, "start 2 of node n1, and start 3 is known"),
            (Life { process: 10, ..life }, "another process is node n1"),
        ];
        for (life, part) in cases {
            let refusal = refused(life);
            assert!(refusal.to_string().contains(part) && refusal.ends_the_node(), "{refusal}");
        }
        // Its directory was given up: a new one may come, in a later life than any that was heard.
        let given_up = KnownLife { directory: GIVEN_UP, starts: 3, process: None };
        let new = |starts| Life { directory: 200, starts, process: 10 };
        assert_eq!(judge(&live(new(4)), None, Some(given_up)), Ok(()));
        assert!(matches!(judge(&live(new(3)), None, Some(given_up)), Err(Refusal::FormerLife { .. })));
        let unheard = KnownLife { process: None, ..KNOWN };
        assert_eq!(judge(&live(Life { process: 10, ..life }), None, Some(unheard)), Ok(()));
    }

    #[tokio::test]
    async fn words_of_another_format_are_refused_in_words_that_it_understands() {
        let mut sent = Vec::new();
        say_hello(&mut sent, &hello(1)).await.unwrap();
        assert_eq!(hear_hello(&mut &sent[..]).await.unwrap(), hello(1));
        sent[8] ^= 1;
        let broken = hear_hello(&mut &sent[..]).await.unwrap_err();
        assert!(matches!(broken, Broken::Format { .. }), "{broken}");
        let mut refusal = Vec::new();
        refuse(&mut refusal, &Refusal::Myself { name: "n1".into() }).await.unwrap();
        // The reader may be of any format.
        refusal[8] ^= 1;
        let broken = hear_hello(&mut &refusal[..]).await.unwrap_err();
        assert!(broken.to_string().contains("two processes have one identity"), "{broken}");
    }

    proptest! {
        #[test]
        fn garbage_instead_of_words_is_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            has_preface in any::<bool>(),
        ) {
            let mut sent = if has_preface { words(HELLO, &[]) } else { Vec::new() };
            sent.extend(bytes);
            if has_preface {
                let body_bytes = (sent.len() - 15) as u32;
                sent[11..15].copy_from_slice(&body_bytes.to_le_bytes());
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            // Bytes that happen to be a hello would have to be a long one.
            prop_assert!(runtime.block_on(hear_hello(&mut &sent[..])).is_err());
        }
    }
}
