//! Pipelines, errors at once, frames and encodings: what drivers and libraries rely on byte by byte.

use crate::raw::{Raw, bind, describe_statement, execute, flush, message, parse, parse_as, query, run, sync};
use crate::server::Server;

#[test]
fn a_pipeline_is_one_transaction() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let (mut client, mut other) = (Raw::open(server.ports[0]), Raw::open(server.ports[0]));
    client.simple("create table t (k int primary key, v text); insert into t values (1, 'a')");
    let mut count = || other.simple("select count(*) from t where k > 0").remove(1);

    // After an error nothing of it stays, and nothing more of it runs.
    let answer = client.ask(&[
        run("insert into t values (2, 'b')"),
        run("insert into t values (1, 'again')"),
        run("insert into t values (3, 'c')"),
        sync(),
    ]);
    assert_eq!(answer[..3], ["1", "2", "C INSERT 0 1"]);
    assert!(answer[5].starts_with("E 23505") && answer[6..] == ["Z I"], "{answer:?}");
    assert_eq!(count(), "D 1");
    // Nor if what fails is no statement's execution, or only rows on their way.
    for failing in [
        parse("", "selec"),
        bind("", "nobody", &[], 0),
        run("select 1 / (k - 1) from t"),
        message(b'D', b"X\0"),
        message(b'P', b"\0select 1"),
        run("vacuum t"),
        run("create index concurrently on t (v)"),
    ] {
        let answer = client.ask(&[run("insert into t values (2, 'b')"), failing, sync()]);
        assert!(answer.iter().any(|line| line.starts_with('E')), "{answer:?}");
        assert_eq!((answer.last().unwrap().as_str(), count().as_str()), ("Z I", "D 1"));
    }
    // TRUNCATE and DDL are part of it as well.
    let changes = [run("truncate t"), run("create table u (k int)"), run("select 1/0"), sync()];
    assert!(client.ask(&changes).iter().any(|line| line.starts_with("E 22012")));
    assert_eq!(count(), "D 1");
    assert!(client.simple("select * from u")[0].starts_with("E 42P01"));

    // Settings end with it too, wherever it fails.
    for changes in [
        [run("set lock_timeout = '7s'"), run("select 1/0"), sync()],
        [
            run("insert into t values (2, 'b')"),
            run("set lock_timeout = '7s'"),
            [run("selec"), sync()].concat(),
        ],
    ] {
        assert!(client.ask(&changes).iter().any(|line| line.starts_with('E')));
        assert_eq!(client.simple("show lock_timeout")[1], "D 0");
    }
    client.ask(&[run("set lock_timeout = '7s'"), run("select 1"), sync()]);
    assert_eq!(client.simple("show lock_timeout")[1], "D 7s");

    // Its own statements see what it has done; others do once it is over.
    client.send(&[run("insert into t values (2, 'b')"), run("select count(*) from t"), flush()].concat());
    assert_eq!(client.lines(6), ["1", "2", "C INSERT 0 1", "1", "2", "D 2"]);
    assert_eq!(count(), "D 1");
    assert_eq!(client.ask(&[sync()]), ["C SELECT 1", "Z I"]);
    assert_eq!(count(), "D 2");
    // A single statement of which it is not known whether more follow.
    client.send(&[run("insert into t values (3, 'c')"), flush()].concat());
    assert_eq!(client.lines(3), ["1", "2", "C INSERT 0 1"]);
    assert_eq!(count(), "D 2");
    assert_eq!(client.ask(&[run("select 1/0"), sync()]).last().unwrap(), "Z I");
    assert_eq!(count(), "D 2");
    // A client that leaves before Sync leaves nothing.
    client.send(&[run("insert into t values (3, 'c')"), flush()].concat());
    client.lines(3);
    drop(client);
    let mut client = Raw::open(server.ports[0]);
    assert_eq!(count(), "D 2");

    // BEGIN in it makes it a block; COMMIT in it ends it there.
    let answer = client.ask(&[
        run("insert into t values (3, 'c')"),
        run("begin"),
        run("select v from t where k = 3"),
        sync(),
    ]);
    assert_eq!((answer[5].as_str(), answer.last().unwrap().as_str()), ("C BEGIN", "Z T"));
    assert_eq!(client.simple("rollback"), ["C ROLLBACK", "Z I"]);
    assert_eq!(count(), "D 2");
    let answer = client.ask(&[
        run("begin"),
        run("insert into t values (3, 'c')"),
        run("commit"),
        run("insert into t values (4, 'd')"),
        run("select 1/0"),
        sync(),
    ]);
    assert_eq!(answer.last().unwrap(), "Z I");
    assert_eq!(count(), "D 3");
    // What cannot be part of a transaction is refused behind something, and runs in front.
    let savepoint = client.ask(&[run("insert into t values (9, 'x')"), run("savepoint s"), sync()]);
    assert!(savepoint.iter().any(|line| line.starts_with("E 25P01")), "{savepoint:?}");
    assert_eq!(count(), "D 3");

    // Two whole sequences in one segment are two transactions.
    client.send(&[run("insert into t values (5, 'e')"), sync(), run("select 1/0"), sync()].concat());
    assert_eq!(client.until_ready(), ["1", "2", "C INSERT 0 1", "Z I"]);
    assert!(client.until_ready()[2].starts_with("E 22012"));
    assert_eq!(count(), "D 4");
    // Close between a statement and its Sync does not make it another's.
    let close = message(b'C', b"P\0");
    let answer = client.ask(&[run("insert into t values (6, 'f')"), close, sync()]);
    assert_eq!(answer, ["1", "2", "C INSERT 0 1", "3", "Z I"]);
    // Nor does a Sync that comes later, or byte by byte.
    let bytes = [run("insert into t values (7, 'g')"), sync()].concat();
    for (n, byte) in bytes.iter().enumerate() {
        client.send(&[*byte]);
        if n % 16 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    assert_eq!(client.until_ready(), ["1", "2", "C INSERT 0 1", "Z I"]);
    // A text behind an unfinished sequence takes it along.
    client.send(&run("insert into t values (8, 'h')"));
    assert_eq!(client.ask(&[query("select 1")])[2], "C INSERT 0 1");
    assert_eq!(count(), "D 7");
}

#[test]
fn an_error_is_told_at_once_and_empty_texts_are_answered() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let mut client = Raw::open(server.ports[0]);
    // Without Flush or Sync.
    client.send(&parse("", "selec 1"));
    assert_eq!(client.line().unwrap(), "E 42601 syntax error at or near \"selec\"");
    // What follows is thrown away until Sync, unread.
    client.send(&[parse("", "select 1"), flush(), message(b'P', b"no text")].concat());
    assert_eq!(client.ask(&[sync()]), ["Z I"]);

    assert_eq!(client.simple(""), ["I", "Z I"]);
    assert_eq!(client.simple(" ; -- nothing"), ["I", "Z I"]);
    assert_eq!(client.ask(&[run(""), sync()]), ["1", "2", "I", "Z I"]);
    assert_eq!(client.ask(&[parse("", ""), describe_statement(""), sync()]), ["1", "t", "n", "Z I"]);

    // The function call protocol is refused, and the session goes on.
    let call = message(b'F', b"\0\0\0\x2a\0\0\0\0\0\0");
    let answer = client.ask(&[call]);
    assert!(answer[0].starts_with("E 0A000") && answer[1..] == ["Z I"], "{answer:?}");

    // Frames are read within their length.
    let refused = |client: &mut Raw, message: Vec<u8>, state: &str| {
        let answer = client.ask(&[message, sync()]);
        assert!(answer[0].starts_with(&format!("E {state}")), "{answer:?}");
        assert_eq!(answer.last().unwrap(), "Z I");
    };
    client.send(&[message(b'Q', b"select 1"), query("select 2")].concat());
    assert_eq!(client.until_ready(), ["E 08P01 invalid string in message", "Z I"]);
    assert_eq!(client.until_ready()[1], "D 2");
    assert_eq!(client.ask(&[message(b'Q', b"select 1\0x\0")]), ["E 08P01 invalid message format", "Z I"]);
    assert_eq!(
        client.ask(&[message(b'Q', b"select '\xe4'\0")])[0],
        "E 22021 invalid byte sequence for encoding \"UTF8\": 0xe4 0x27"
    );
    client.ask(&[parse("s", "select $1::text"), sync()]);
    let mut trailing = bind("", "s", &[b"x"], 0);
    trailing[4] += 1;
    trailing.push(b'!');
    refused(&mut client, trailing, "08P01 invalid message format");
    let mut short = bind("", "s", &[b"x"], 0);
    short[4] -= 1;
    short.pop();
    refused(&mut client, short, "08P01 insufficient data left in message");
    refused(&mut client, parse("", "select '\u{e4}'").replacing(0xc3, 0xff), "22021");
    refused(&mut client, bind("", "s", &[b"a\0b"], 0), "22021");
    refused(&mut client, bind("", "s", &[b"a\0b"], 1), "22021");
    refused(&mut client, bind("", "s", &[b"\xff"], 1), "22021");
    refused(&mut client, bind("", "s", &[b"x"], 7), "22023 unsupported format code: 7");
    assert!(client.simple("select E'a\\000b'")[0].starts_with('E'));
    // Kinds and lengths that are none end the connection, with the reason.
    client.send(b"!\0\0\0\x04");
    assert_eq!(client.until_ready(), ["E FATAL 08P01 invalid frontend message type 33"]);
    let mut client = Raw::open(server.ports[0]);
    client.send(b"S\x7f\xff\xff\xff");
    assert_eq!(client.until_ready(), ["E FATAL 08P01 invalid message length 2147483647"]);
}

trait Replacing {
    fn replacing(self, old: u8, new: u8) -> Self;
}

impl Replacing for Vec<u8> {
    fn replacing(mut self, old: u8, new: u8) -> Self {
        self.iter_mut().filter(|b| **b == old).for_each(|b| *b = new);
        self
    }
}

#[test]
fn what_was_described_is_what_comes() {
    let server = Server::start_with(&["--regions", "us"], 1);
    let (mut client, mut other) = (Raw::open(server.ports[0]), Raw::open(server.ports[0]));
    client.simple("create table t (k int primary key, n numeric(8,2), u uuid, s varchar(7))");
    client.simple("insert into t values (1, 1.5, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'x')");

    // Rows and columns name the same table, columns and modifiers.
    let described = |client: &mut Raw, sql: &str| {
        let answer = client.ask(&[parse("", sql), describe_statement(""), sync()]);
        (answer[1].clone(), answer[2].clone())
    };
    for sql in [
        "select k, n, u, s from t where k = 1",
        "select * from t",
        "select x.k, x.n, x.u, x.s from (select * from t) x order by x.k limit 3",
        "select t.* from t join t b on b.n = t.n",
    ] {
        let columns = "T k:23:-1:1*|n:1700:524294:2*|u:2950:-1:3*|s:1043:11:4*";
        assert_eq!(described(&mut client, sql), ("t".into(), columns.into()), "{sql}");
    }
    assert_eq!(described(&mut client, "select n + 1 as m, k::text from t").1, "T m:1700:-1:0|k:25:-1:0");

    // Intervals, times and the rest in text and in binary, as declared and as found.
    let day = "select timestamp '2026-01-02 03:00:00' - timestamp '2026-01-01 00:00:00' as i";
    assert_eq!(described(&mut client, day).1, "T i:1186:-1:0");
    assert_eq!(client.ask(&[run(day), sync()])[2], "D 1 day 03:00:00");
    let binary = |client: &mut Raw, sql: &str, types: &[u32], value: &[u8]| {
        let answer = client.ask(&[
            parse_as("", sql, types),
            describe_statement(""),
            bind("", "", &[value], 1),
            execute(""),
            sync(),
        ]);
        (answer[1].clone(), answer.iter().find(|line| line.starts_with(['D', 'E'])).cloned().unwrap())
    };
    let three_hours = [10_800_000_000i64.to_be_bytes().to_vec(), vec![0, 0, 0, 1], vec![0, 0, 0, 2]].concat();
    let shown = format!("D {}", three_hours.iter().map(|b| format!("{b:02x}")).collect::<String>());
    assert_eq!(
        binary(&mut client, "select $1::interval", &[], &three_hours),
        ("t 1186".into(), shown.clone())
    );
    assert_eq!(binary(&mut client, "select $1", &[1186], &three_hours), ("t 1186".into(), shown));
    let told = client.ask(&[
        parse_as("", "select $1", &[1186]),
        bind("", "", &[b"2 days, 1:00:00"], 0),
        execute(""),
        sync(),
    ]);
    assert_eq!(told[2], "D 2 days 01:00:00");
    let told =
        client.ask(&[parse_as("", "select $1", &[1700]), bind("", "", &[b"1.50"], 0), execute(""), sync()]);
    assert_eq!(told[2], "D 1.50");
    let clock = 3_600_000_000i64.to_be_bytes();
    let shown = "D 00000000d693a400".to_string();
    assert_eq!(binary(&mut client, "select $1::time", &[], &clock), ("t 1083".into(), shown));
    for (name, oid, value) in [
        ("timetz", 1266, [&clock[..], &(-3_600i32).to_be_bytes()].concat()),
        ("cidr", 650, vec![2, 8, 1, 4, 10, 0, 0, 0]),
        ("macaddr", 829, vec![8, 0, 0x2b, 1, 2, 3]),
        ("macaddr8", 774, vec![8, 0, 0x2b, 0xff, 0xfe, 1, 2, 3]),
    ] {
        let shown = format!("D {}", value.iter().map(|b| format!("{b:02x}")).collect::<String>());
        let sql = format!("select $1::{name}");
        assert_eq!(binary(&mut client, &sql, &[], &value), (format!("t {oid}"), shown), "{name}");
    }
    // Arrays by the type they are cast to.
    let described = client.ask(&[parse("", "select $1::int[]"), describe_statement(""), sync()]);
    assert_eq!(described[1..3], ["t 1007", "T array:1007:-1:0"]);
    let described = client.ask(&[
        parse("", "select typname from pg_type where oid = any($1::oid[])"),
        describe_statement(""),
        sync(),
    ]);
    assert_eq!(described[1], "t 1028");
    let uuid = [7u8; 16];
    assert_eq!(binary(&mut client, "select count(*) from t where u = $1", &[], &uuid).0, "t 2950");

    // A statement whose columns have changed since it was described.
    client.ask(&[parse("all", "select * from t where k = 1"), parse("some", "select s from t"), sync()]);
    assert_eq!(other.simple("alter table t add column w int")[0], "C ALTER TABLE");
    for name in ["all", "all"] {
        let answer = client.ask(&[bind("", name, &[], 0), execute(""), sync()]);
        assert_eq!(answer[1..], ["E 0A000 cached plan must not change result type", "Z I"]);
    }
    assert_eq!(client.ask(&[bind("", "some", &[], 0), execute(""), sync()])[1], "D x");
    client.simple("prepare p as select * from t");
    other.simple("alter table t add column x int");
    assert_eq!(client.simple("execute p")[0], "E 0A000 cached plan must not change result type");

    // A copy's errors say where.
    let copied = |client: &mut Raw, sql: &str, data: &[u8]| {
        client.send(&query(sql));
        assert_eq!(client.line().unwrap(), "G");
        let answer = client.ask(&[message(b'd', data), message(b'c', b"")]);
        answer[0].clone()
    };
    let mut copied = |sql: &str, data: &[u8]| copied(&mut client, sql, data);
    assert_eq!(
        copied("copy t (k, n) from stdin", b"5\t1\n6\t2\n7\tmany\n"),
        "E 22P02 invalid input syntax for type numeric: \"many\" [COPY t, line 3, column n: \"many\"]"
    );
    assert_eq!(
        copied("copy t (k, n) from stdin", b"5\t1\n6\n"),
        "E 22P04 missing data for column \"n\" [COPY t, line 2: \"6\"]"
    );
    assert_eq!(
        copied("copy t (k, s) from stdin csv", b"5,\"a\nb\"\n6,\xff\n"),
        "E 22021 invalid byte sequence for encoding \"UTF8\": 0xff [COPY t, line 3]"
    );
    assert!(
        copied("copy t (k, n) from stdin", b"\\N\t1\n").ends_with("[COPY t, line 1: \"\\N\t1\"]"),
        "a row that breaks a constraint"
    );
}
