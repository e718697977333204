//! One offence per marked line: the host set has to find each of them, and nothing else.
#![allow(dead_code, unused)]

fn tasks() {
    tokio::spawn(async {}); // banned
    tokio::task::spawn(async {}); // banned
    tokio::task::spawn_local(async {}); // banned
    let _ = std::time::Instant::now();
}

#[expect(clippy::disallowed_methods, reason = "lives as long as the program")]
fn excused() {
    tokio::spawn(async {});
}
