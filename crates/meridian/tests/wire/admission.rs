//! Who gets in, under which name, and how long a client may say nothing.

use crate::raw::{Raw, bind, message, parse, sync};
use crate::server::Server;
use std::time::{Duration, Instant};

const DATABASE: (&str, &str) = ("database", "meridian");

#[test]
fn silent_connections_hold_no_places_and_the_last_places_are_the_operator_s() {
    let arguments = ["--regions", "us", "--max-connections", "5", "--reserved-connections", "1"];
    let limits = ["--max-connections-per-address", "4", "--authentication-timeout", "2s"];
    let mut server = Server::start_with(&[&arguments[..], &limits].concat(), 1);
    let port = server.ports[0];
    let mut silent: Vec<Raw> = (0..300).map(|_| Raw::silent(port)).collect();
    let mut held: Vec<Raw> = (0..3).map(|_| Raw::open(port)).collect();
    // Those that were not sent away for others are told when their time is over.
    let began = Instant::now();
    let last = silent.pop().unwrap().until_ready();
    assert_eq!(last, ["E FATAL 57014 canceling authentication due to timeout"]);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(silent.remove(0).until_ready(), ["E FATAL 53300 sorry, too many clients already"]);
    drop(silent);

    held.push(Raw::open(port));
    let refused = |user: &str| Raw::start(port, &[("user", user), DATABASE]).1;
    let reserved =
        "E FATAL 53300 remaining connection slots are reserved for non-replication superuser connections";
    assert_eq!(refused("me"), [reserved]);
    let (operator, greeting) = Raw::start(port, &[("user", "root"), DATABASE]);
    assert_eq!(greeting.last().unwrap(), "Z I");
    assert_eq!(refused("root"), ["E FATAL 53300 sorry, too many clients already"]);
    // Also a client that asks for encryption first hears why.
    let mut careful = Raw::silent(port);
    careful.send(b"\0\0\0\x08\x04\xd2\x16\x2f");
    let mut answer = [0];
    careful.read_bytes(&mut answer);
    assert_eq!(answer, *b"N");
    assert_eq!(careful.greet(&[("user", "me"), DATABASE]), ["E FATAL 53300 sorry, too many clients already"]);
    drop((operator, held.pop()));
    // A place comes back as soon as the server has seen that its client is gone.
    let until = Instant::now() + Duration::from_secs(5);
    let mut again = refused("me");
    while again.last().unwrap() != "Z I" && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
        again = refused("me");
    }
    assert_eq!(again.last().unwrap(), "Z I");
    assert!(server.is_alive());
}

#[test]
fn names_options_and_process_ids_are_what_they_say() {
    let server = Server::start_with(&["--regions", "us", "--max-connections-per-address", "3"], 1);
    let port = server.ports[0];
    let start = |parameters: &[(&str, &str)]| Raw::start(port, &[&[("user", "me")], parameters].concat());
    let told = |parameters: &[(&str, &str)]| start(parameters).1.pop().unwrap();
    assert_eq!(told(&[("database", "other")]), "E FATAL 3D000 database \"other\" does not exist");
    assert_eq!(told(&[]), "E FATAL 3D000 database \"me\" does not exist");
    assert_eq!(
        told(&[DATABASE, ("replication", "true")]),
        "E FATAL 0A000 a connection for replication is not supported"
    );

    // Options are obeyed, RESET goes back to them, and what is not obeyed is refused.
    let options = r"-c statement_timeout=5s --lock-timeout=70 -capplication_name=a\ b\\c";
    let (mut client, greeting) = start(&[DATABASE, ("options", options)]);
    assert!(greeting.contains(&r"S application_name=a b\c".to_string()), "{greeting:?}");
    for (sql, shown) in [
        ("show statement_timeout", "D 5s"),
        ("set lock_timeout = '2min'; show lock_timeout", "D 2min"),
        ("reset lock_timeout; show lock_timeout", "D 70ms"),
        ("show max_connections", "D 500"),
        ("show authentication_timeout", "D 10s"),
    ] {
        assert!(client.simple(sql).contains(&shown.to_string()), "{sql}");
    }
    for (options, state) in [
        ("-c no_such=1", "42704"),
        ("-c statement_timeout=soon", "22023"),
        ("-c IntervalStyle=sql_standard", "0A000"),
        ("-c timezone=Nowhere/Else", "22023"),
        ("-F", "42601"),
        ("-c work_mem", "42601"),
    ] {
        let told = told(&[DATABASE, ("options", options)]);
        assert!(told.starts_with(&format!("E FATAL {state}")), "{options}: {told}");
    }

    // Each session has a process id of its own, the same everywhere.
    let (mut second, greeted) = start(&[DATABASE]);
    let process = |greeting: &[String]| {
        let key = greeting.iter().find_map(|line| line.strip_prefix("K "));
        key.expect("a key").to_string()
    };
    let (one, two) = (process(&greeting), process(&greeted));
    assert_ne!(one, two);
    assert_eq!(client.simple("select pg_backend_pid()")[1], format!("D {one}"));
    assert_eq!(second.simple("select pg_backend_pid()")[1], format!("D {two}"));
    second.simple("begin; select 1");
    let seen = client.simple("select pid, state, query, usename from pg_stat_activity order by pid");
    assert!(seen.contains(&format!("D {two}|idle in transaction|begin; select 1|me")), "{seen:?}");
    assert!(seen.iter().any(|line| line.starts_with(&format!("D {one}|active|select pid"))), "{seen:?}");
    // One address has its share, another one its own.
    let _third = start(&[DATABASE]);
    let refused = told(&[DATABASE]);
    assert_eq!(refused, "E FATAL 53300 too many connections from address 127.0.0.1");
    let elsewhere = socket_from("127.0.0.2", port);
    assert_eq!(Raw::over(elsewhere).greet(&[("user", "me"), DATABASE]).pop().unwrap(), "Z I");
}

/// A connection to this machine from another of its addresses.
fn socket_from(address: &str, port: u16) -> std::net::TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let socket = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((address.parse::<std::net::IpAddr>().unwrap(), 0).into()).unwrap();
        socket.connect(([127, 0, 0, 1], port).into()).await.unwrap().into_std().unwrap()
    });
    socket.set_nonblocking(false).unwrap();
    socket
}

#[test]
fn what_a_connection_may_keep_and_how_long_it_may_wait_is_bounded() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let port = server.ports[0];
    let (mut client, mut other) = (Raw::open(port), Raw::open(port));
    client.simple("create table t (k int primary key, v int); insert into t values (1, 1)");

    let mut names: Vec<Vec<u8>> = (0..5_001).map(|n| parse(&format!("s{n}"), "")).collect();
    names.push(sync());
    let answer = client.ask(&names);
    assert_eq!(answer[4_999], "1");
    assert_eq!(answer[5_000..], ["E 53400 too many prepared statements", "Z I"]);
    assert_eq!(client.simple("deallocate s7")[0], "C DEALLOCATE");
    assert_eq!(client.ask(&[parse("again", ""), sync()]), ["1", "Z I"]);
    client.simple("deallocate all");
    client.simple("begin");
    client.ask(&[parse("s", "select v from t"), sync()]);
    let mut portals: Vec<Vec<u8>> = (0..1_001).map(|n| bind(&format!("p{n}"), "s", &[], 0)).collect();
    portals.push(sync());
    assert_eq!(client.ask(&portals)[1_000..], ["E 53400 too many open portals", "Z E"]);
    client.simple("rollback");

    // Locks, idle transactions, idle sessions, long transactions.
    other.simple("begin; update t set v = 2 where k = 1");
    client.simple("set lock_timeout = 50");
    let waited = "E 55P03 canceling statement due to lock timeout";
    assert_eq!(client.simple("update t set v = 3 where k = 1")[0], waited);
    client.simple("begin");
    assert_eq!(client.simple("select * from t where k = 1 for update"), [waited, "Z E"]);
    client.simple(
        "rollback; set idle_in_transaction_session_timeout = '100ms'; set idle_session_timeout = '1h'",
    );
    std::thread::sleep(Duration::from_millis(150));
    client.simple("begin; update t set v = 4 where k = 2");
    let idle = "E FATAL 25P03 terminating connection due to idle-in-transaction timeout";
    assert_eq!(client.until_ready(), [idle]);
    let mut client = Raw::open(port);
    client.simple("set idle_session_timeout = '100ms'");
    assert_eq!(client.until_ready(), ["E FATAL 57P05 terminating connection due to idle-session timeout"]);
    let late = "E FATAL 25P04 terminating connection due to transaction timeout";
    let mut client = Raw::open(port);
    client.simple("set transaction_timeout = '200ms'");
    client.simple("begin");
    assert_eq!(client.until_ready(), [late]);
    let mut client = Raw::open(port);
    client.simple("set transaction_timeout = '200ms'");
    assert_eq!(client.simple("update t set v = 3 where k = 1").last().unwrap(), late);
    // A client that sends ahead and leaves takes its statement along.
    let mut gone = Raw::open(port);
    gone.send(&[crate::raw::query("update t set v = 9 where k = 1"), crate::raw::query("select 1")].concat());
    std::thread::sleep(Duration::from_millis(100));
    drop(gone);
    let until = Instant::now() + Duration::from_secs(5);
    let mut watcher = Raw::open(port);
    let running = "select count(*) from pg_stat_activity where query like 'update t set v = 9%'";
    while watcher.simple(running)[1] != "D 0" {
        assert!(Instant::now() < until, "the statement of a lost client goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Its locks go with it.
    let mut client = Raw::open(port);
    assert_eq!(other.simple("rollback")[0], "C ROLLBACK");
    assert_eq!(client.simple("update t set v = 5 where k = 1")[0], "C UPDATE 1");
    // A copy whose data do not come obeys the statement's timeout.
    client.simple("set statement_timeout = '100ms'");
    let began = Instant::now();
    client.send(&crate::raw::query("copy t from stdin"));
    assert_eq!(client.lines(2), ["G", "E 57014 canceling statement due to statement timeout"]);
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(client.ask(&[message(b'd', b"9\t9\n"), message(b'c', b"")]), ["Z I"]);
    assert_eq!(other.simple("select count(*) from t")[1], "D 1");
}
