//! psql's commands about what there is: each is tried as the program sends it.

use crate::dumps::is_there;
use crate::server::{Server, run};
use std::process::Command;

const MADE: &str = "
    CREATE TABLE p (id int PRIMARY KEY, name text);
    CREATE TABLE t (id int PRIMARY KEY, parent int REFERENCES p, amount int DEFAULT 3 CHECK (amount > 0), name varchar(9));
    CREATE INDEX ti ON t (name);
    CREATE UNIQUE INDEX tu ON t (lower(name)) WHERE amount > 3;
    CREATE VIEW v AS SELECT id, name FROM t;
    CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM t;
    CREATE SEQUENCE s;
    CREATE TYPE mood AS ENUM ('a', 'b');
    CREATE DOMAIN positive AS int DEFAULT 1 NOT NULL CHECK (VALUE > 0);
    CREATE TABLE x (a mood, b int[], c positive);
    CREATE TABLE g (i int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, d int GENERATED ALWAYS AS (1 + 1) STORED);
    CREATE TABLE parted (id int, day date, CHECK (id > 0)) PARTITION BY RANGE (day);
    CREATE TABLE parted_24 PARTITION OF parted FOR VALUES FROM ('2024-01-01') TO ('2025-01-01') PARTITION BY LIST (id);
    CREATE TABLE parted_24_1 PARTITION OF parted_24 FOR VALUES IN (1);
    CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
    CREATE INDEX parted_id ON parted (id);
    COMMENT ON TABLE t IS 'what there is';
    COMMENT ON TYPE mood IS 'how it feels';
    COMMENT ON DOMAIN positive IS 'more than nothing';
    CREATE ROLE reader;
    GRANT SELECT ON t TO reader;
    GRANT UPDATE (name) ON t TO reader;";

/// Commands, with what their answers have to show.
const COMMANDS: &[(&str, &[&str])] = &[
    ("\\d", &["| materialized view |", "| sequence"]),
    ("\\d+", &["what there is"]),
    ("\\d t", &["\"t_pkey\" PRIMARY KEY", "\"tu\" UNIQUE", "CHECK (amount > 0)", "REFERENCES p(id)"]),
    ("\\d+ t", &["| plain", "home=", "Access method: heap"]),
    ("\\d *", &[]),
    ("\\d+ *", &[]),
    ("\\d ti", &["btree, for table \"public.t\""]),
    ("\\d+ tu", &["lower(name"]),
    ("\\d+ v", &["View definition"]),
    ("\\d+ m", &["Materialized view \"public.m\""]),
    ("\\d s", &["Sequence \"public.s\"", "9223372036854775807"]),
    ("\\d+ x", &["| positive", "| mood", "| integer[]"]),
    ("\\d g", &["generated always as identity", "generated always as (1 + 1) stored"]),
    ("\\d p", &["Referenced by:", "TABLE \"t\" CONSTRAINT"]),
    (
        "\\d parted",
        &["Partitioned table \"public.parted\"", "Partition key: RANGE (day)", "Number of partitions: 2 ("],
    ),
    (
        "\\d+ parted",
        &[
            "Partitions: parted_24 FOR VALUES FROM ('2024-01-01') TO ('2025-01-01'), PARTITIONED,",
            "parted_rest DEFAULT",
        ],
    ),
    (
        "\\d+ parted_24",
        &["Partition of: parted FOR VALUES FROM", "Partition constraint:", "Partition key: LIST (id)"],
    ),
    ("\\d parted_24_1", &["Partition of: parted_24 FOR VALUES IN (1)", "CHECK (id > 0)"]),
    ("\\d parted_id", &["Partitioned index \"public.parted_id\""]),
    ("\\dt", &["| t "]),
    ("\\dt+ t*", &["what there is"]),
    ("\\di+", &["| ti "]),
    ("\\dv+", &["| v "]),
    ("\\dm+", &["| m "]),
    ("\\ds+", &["| s "]),
    ("\\dn+", &["public"]),
    ("\\df", &[]),
    ("\\df+", &[]),
    ("\\dfn", &[]),
    ("\\df now", &["now"]),
    ("\\da sum", &["sum"]),
    ("\\dT+", &["mood", "how it feels", "more than nothing"]),
    ("\\du+", &["reader"]),
    ("\\dp", &["reader=r/", "name:"]),
    ("\\dp t", &["reader=r/"]),
    ("\\z", &["reader=r/"]),
    ("\\ddp", &[]),
    ("\\l+", &["meridian"]),
    ("\\dx", &["plpgsql"]),
    ("\\dC", &["boolean"]),
    ("\\dC+", &["boolean"]),
    ("\\dd", &[]),
    ("\\dD", &["positive", "not null", "CHECK (VALUE > 0)"]),
    ("\\dD+ pos*", &["positive", "more than nothing"]),
    ("\\des", &[]),
    ("\\deu", &[]),
    ("\\dew", &[]),
    ("\\det", &[]),
    ("\\dF", &[]),
    ("\\dFd+", &[]),
    ("\\dFp", &[]),
    ("\\dFt", &[]),
    ("\\dL", &[]),
    ("\\dL+", &[]),
    ("\\dO", &[]),
    ("\\dRp", &[]),
    ("\\dRs", &[]),
    ("\\dy", &[]),
    ("\\sv v", &["CREATE OR REPLACE VIEW public.v"]),
    ("\\db+", &["pg_default"]),
    ("\\dA+", &["btree"]),
    ("\\dAc", &[]),
    ("\\dAf", &[]),
    ("\\dc+", &[]),
    ("\\dconfig block*", &["8192"]),
    ("\\dconfig+", &[]),
    ("\\do +", &["+"]),
    ("\\dP", &["| partitioned table |", "| partitioned index | parted"]),
    ("\\dP+", &["| partitioned table |"]),
    ("\\dPn", &["| parted_24 "]),
    ("\\drds", &[]),
    ("\\dX", &[]),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_command_is_answered() {
    if !is_there("psql") {
        return;
    }
    let server = Server::start_with(&["--regions", "us"], 1);
    run(&server.session_of(0, "root").await.expect("it accepts"), MADE).await;
    let mut wrong = Vec::new();
    for (command, shown) in COMMANDS {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-d", &server.url(0).replace("tester@", "root@"), "-c", command]);
        let answer = psql.env("PGCONNECT_TIMEOUT", "10").output().expect("it runs");
        let (out, told) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
        if told.contains("ERROR") {
            wrong.push(format!("{command}: {told}"));
        }
        let missing: Vec<&&str> = shown.iter().filter(|part| !out.contains(**part)).collect();
        if !missing.is_empty() {
            wrong.push(format!("{command} shows no {missing:?}:\n{out}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
