//! The ways between a drill's processes: each runs through this process, which can cut it or let it fall silent.
//!
//! KEEPS: a way that is open hands on every byte in order; one that was silent loses its connections when it opens again,
//! since what they were sent meanwhile is gone.

use std::io;
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How a way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Connections are closed, and new ones too.
    Cut,
    /// Connections stay open, and nothing arrives: the machine is gone, or the network does not say that it is broken.
    Silent,
}

/// Ways from each process to each other one. Dropping it closes them.
pub struct Ways {
    /// From and to, with the port that stands for the second at the first.
    ways: Vec<(usize, usize, u16, watch::Sender<Way>)>,
    _tasks: JoinSet<()>,
}

impl Ways {
    /// Between processes that listen at these ports. Errors: no more ports to be had.
    pub async fn between(ports: &[u16]) -> io::Result<Ways> {
        let (mut ways, mut tasks) = (Vec::new(), JoinSet::new());
        for from in 0..ports.len() {
            for to in (0..ports.len()).filter(|to| *to != from) {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let (sender, way) = watch::channel(Way::Open);
                ways.push((from, to, listener.local_addr()?.port(), sender));
                tasks.spawn(accept(listener, ports[to], way));
            }
        }
        Ok(Ways { ways, _tasks: tasks })
    }
    /// The port at which a process reaches another one.
    pub fn port(&self, from: usize, to: usize) -> u16 {
        let way = self.ways.iter().find(|(f, t, ..)| (*f, *t) == (from, to));
        way.expect("there is a way between any two").2
    }
    /// All ways from and to a process.
    pub fn set(&self, process: usize, way: Way) {
        for (_, _, _, sender) in self.ways.iter().filter(|(f, t, ..)| *f == process || *t == process) {
            sender.send_replace(way);
        }
    }
}

async fn accept(listener: TcpListener, to: u16, way: watch::Receiver<Way>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(join(stream, to, way.clone()));
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn join(stream: TcpStream, to: u16, mut way: watch::Receiver<Way>) {
    if is_silent(&way) {
        // Taken by the system, and never heard.
        return drop(way.wait_for(|way| *way != Way::Silent).await);
    }
    let Ok(other) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await else { return };
    _ = (stream.set_nodelay(true), other.set_nodelay(true));
    let (here, there) = (stream.into_split(), other.into_split());
    let mut cut = way.clone();
    tokio::select! {
        () = hand_on(here.0, there.1, way.clone()) => {}
        () = hand_on(there.0, here.1, way) => {}
        _ = cut.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn hand_on(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut way: watch::Receiver<Way>) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).await;
        if is_silent(&way) {
            return drop(way.wait_for(|way| *way != Way::Silent).await);
        }
        match read {
            Ok(count) if count > 0 && to.write_all(&bytes[..count]).await.is_ok() => {}
            _ => return,
        }
    }
}

fn is_silent(way: &watch::Receiver<Way>) -> bool {
    *way.borrow() == Way::Silent
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_way_hands_on_until_it_is_cut_and_a_silent_one_ends_its_connections_when_it_opens() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        let ways = Ways::between(&[1, port]).await.unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, ways.port(0, 1)));
        let hears = async |stream: &mut TcpStream| {
            stream.write_all(b"x").await.unwrap();
            let read = tokio::time::timeout(Duration::from_millis(200), stream.read_u8()).await;
            read.map(|byte| byte.ok())
        };
        let mut stream = connect().await.unwrap();
        assert_eq!(hears(&mut stream).await.unwrap(), Some(b'x'));
        ways.set(0, Way::Silent);
        assert!(hears(&mut stream).await.is_err(), "nothing comes, and nobody says so");
        ways.set(0, Way::Open);
        assert_eq!(stream.read_u8().await.ok(), None, "what was lost cannot be made good");
        let mut stream = connect().await.unwrap();
        assert_eq!(hears(&mut stream).await.unwrap(), Some(b'x'));
        ways.set(1, Way::Cut);
        assert_eq!(stream.read_u8().await.ok(), None);
    }
}
