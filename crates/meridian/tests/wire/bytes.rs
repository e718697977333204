//! Bytes that are no messages: their sender is told or dropped, and everybody else goes on.

use crate::server::{Server, run, value};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bytes_end_their_connection_and_no_other() {
    let mut server = Server::start();
    let other = server.session(0).await;
    run(&other, "create table t (k int primary key)").await;
    let startup = b"\0\0\0\x15\0\x03\0\0user\0raw\0\0\0\0\0";
    let greeted = |rest: &[u8]| [&startup[..4 + 0x15 - 4], rest].concat();
    let cases: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 64],
        vec![0; 64],
        b"\x7f\xff\xff\xff\0\x03\0\0".to_vec(),
        b"\0\0\0\x08\0\x09\0\0".to_vec(),
        b"\0\0\0\x09\0\x03\0\0\0".to_vec(),
        greeted(b"Q\x7f\xff\xff\xffselect 1"),
        greeted(b"Q\0\0\0\x03"),
        greeted(b"Q\xff\xff\xff\xff"),
        greeted(b"!\0\0\0\x04"),
        greeted(b"Q\0\0\0\x08\xff\xfe\xfd\0"),
        greeted(b"B\0\0\0\x06\0\0"),
        greeted(b"B\0\0\0\x0c\0\0\x7f\xff\x7f\xff\0\0"),
        greeted(b"P\0\0\0\x08\0\0\x7f\xff"),
        greeted(b"E\0\0\0\x05\0"),
        greeted(b"Q\0\0\0\x20select"),
    ];
    for (n, case) in cases.iter().enumerate() {
        let mut socket = TcpStream::connect(("127.0.0.1", server.ports[0])).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        // The server may have hung up already: then there is nothing left to say.
        _ = socket.write_all(case);
        _ = socket.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let end = socket.read_to_end(&mut answer);
        let reset = end.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(end.is_ok() || reset, "case {n} is left hanging: {end:?}");
        assert_eq!(value(&other, "select count(*) from t").await, "0", "case {n}");
    }
    assert!(server.is_alive());
}
