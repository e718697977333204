//! One offence per marked line: the pure set has to find each of them, and nothing else.
#![allow(dead_code, unused)]

use std::collections::BTreeMap;
use std::collections::HashMap; // banned

struct Node {
    rows: BTreeMap<u64, u64>,
    seen: std::collections::HashSet<u64>, // banned
    hasher: std::hash::RandomState, // banned
    entropy: rand::rngs::OsRng, // banned
}

fn clocks() {
    let _ = std::time::Instant::now(); // banned
    let _ = std::time::SystemTime::now(); // banned
    let _ = std::time::Duration::from_millis(1);
}

fn threads() {
    std::thread::spawn(|| {}); // banned
    std::thread::scope(|_| {}); // banned
    std::thread::sleep(std::time::Duration::ZERO); // banned
}

fn files() {
    let _ = std::fs::File::open("a"); // banned
    let _ = std::fs::read("a"); // banned
    let _ = std::fs::read_to_string("a"); // banned
    let _ = std::fs::write("a", "b"); // banned
}

fn sockets() {
    let _ = std::net::TcpStream::connect("a:1"); // banned
    let _ = std::net::UdpSocket::bind("a:1"); // banned
}

fn surroundings() {
    let _ = std::env::var("HOME"); // banned
    let _ = rand::rng(); // banned
    let _: u64 = rand::random(); // banned
}
