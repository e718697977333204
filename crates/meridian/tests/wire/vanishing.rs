//! Clients that go away without a word.

use crate::server::{Server, run, value};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A connection that speaks bytes.
fn raw(port: u16) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut startup = vec![0, 0, 0, 0, 0, 3, 0, 0];
    startup.extend_from_slice(b"user\0raw\0database\0meridian\0\0");
    let length = startup.len() as i32;
    startup[..4].copy_from_slice(&length.to_be_bytes());
    socket.write_all(&startup).unwrap();
    read_until(&mut socket, b'Z');
    socket
}

/// Reads messages up to one of this kind.
fn read_until(socket: &mut TcpStream, kind: u8) {
    loop {
        let mut head = [0; 5];
        socket.read_exact(&mut head).unwrap();
        let length = i32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        socket.read_exact(&mut vec![0; length]).unwrap();
        if head[0] == kind {
            return;
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    out.extend_from_slice(body);
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_lost_in_a_transaction_leaves_no_trace() {
    let server = Server::start();
    let other = server.session(0).await;
    run(&other, "create table t (k int primary key, v int); insert into t values (1, 1)").await;
    for _ in 0..5 {
        let mut socket = raw(server.ports[1]);
        let text = b"begin; update t set v = 99 where k = 1; insert into t values (2, 2)\0";
        socket.write_all(&message(b'Q', text)).unwrap();
        read_until(&mut socket, b'Z');
        drop(socket);
        run(&other, "update t set v = v + 1 where k = 1").await;
    }
    assert_eq!(value(&other, "select sum(v), count(*) from t").await, "6|1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_lost_in_a_copy_has_copied_nothing() {
    let server = Server::start();
    let other = server.session(2).await;
    run(&other, "create table t (k int primary key, v text)").await;
    let mut socket = raw(server.ports[0]);
    socket.write_all(&message(b'Q', b"copy t from stdin\0")).unwrap();
    read_until(&mut socket, b'G');
    for k in 0..5_000 {
        socket.write_all(&message(b'd', format!("{k}\tx\n").as_bytes())).unwrap();
    }
    // The last line is torn.
    socket.write_all(&message(b'd', b"99999\tto")).unwrap();
    drop(socket);
    run(&other, "insert into t values (1, 'mine')").await;
    assert_eq!(value(&other, "select count(*), min(v) from t").await, "1|mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_with_a_bad_line_copies_nothing() {
    let server = Server::start();
    let other = server.session(0).await;
    run(&other, "create table t (k int primary key, v text)").await;
    let mut socket = raw(server.ports[0]);
    socket.write_all(&message(b'Q', b"copy t from stdin csv\0")).unwrap();
    read_until(&mut socket, b'G');
    socket.write_all(&message(b'd', b"1,a\n2,b\nx,c\n")).unwrap();
    socket.write_all(&message(b'c', b"")).unwrap();
    read_until(&mut socket, b'E');
    read_until(&mut socket, b'Z');
    assert_eq!(value(&other, "select count(*) from t").await, "0");
}
