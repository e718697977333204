//! Tables, constraints, indexes, placement.

use crate::check;
use crate::support::Regions;

#[tokio::test]
async fn tables_hold_every_type_and_check_what_they_are_given() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (a smallint primary key, b integer, c bigint, d numeric(6,2), e real,
            f double precision, g text, h varchar(3), i char(4), j boolean, k date, l timestamp,
            m timestamptz, n uuid, o bytea)" => "CREATE TABLE",
        "insert into t values (1, 2, 3, 4.005, 5.5, 0.1, 'g', 'hhh', 'i', true, '2026-11-21',
            '2026-11-21 01:02:03.5', '2026-11-21 01:02:03+01', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff')"
            => "INSERT 0 1",
        "select * from t where a = 1" => "1|2|3|4.01|5.5|0.1|g|hhh|i   |t|2026-11-21|2026-11-21 01:02:03.5|\
            2026-11-21 00:02:03+00|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|\\x00ff",
        "select * from t" => "1|2|3|4.01|5.5|0.1|g|hhh|i   |t|2026-11-21|2026-11-21 01:02:03.5|\
            2026-11-21 00:02:03+00|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|\\x00ff",
        "insert into t (a) values (40000)" => "22003 smallint out of range",
        "insert into t (a, h) values (2, 'hhhh')" => "22001 value too long for type character varying(3)",
        "insert into t (a, d) values (2, 12345.6)" => "22003 numeric field overflow",
        "insert into t (a, b) values (2, 'x')" => "22P02 invalid input syntax for type integer: \"x\"",
        "insert into t (a, k) values (2, '2026-02-30')" => "22008 date/time field value out of range: \"2026-02-30\"",
        "insert into t (a, zz) values (2, 1)" => "42703 column \"zz\" of relation \"t\" does not exist",
        "insert into t (b) values (2)" =>
            "23502 null value in column \"a\" of relation \"t\" violates not-null constraint",
        "create table t (a int)" => "42P07 relation \"t\" already exists",
        "create table if not exists t (a int)" => "CREATE TABLE",
        "create table u (a wurst)" => "42704 type \"wurst\" does not exist",
        "create table u (a money)" => "0A000 type money is not supported",
        "create table u (a int references t match partial)" => "0A000 MATCH PARTIAL is not supported",
        "drop table t" => "DROP TABLE",
        "select * from t where a = 1" => "42P01 relation \"t\" does not exist",
        "drop table t" => "42P01 table \"t\" does not exist",
        "drop table if exists t" => "DROP TABLE",
    );
}

#[tokio::test]
async fn constraints_are_named_when_they_are_violated() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table t (id serial primary key, email text unique, age int check (age > 0) default 18,
            constraint young check (age < 100))" => "CREATE TABLE",
        "insert into t (email) values ('a'), ('b') returning id, age" => "1|18\n2|18",
        "insert into t (email) values ('a')" => "23505 duplicate key value violates unique constraint \"t_email_key\"",
        "insert into t (id) values (1)" => "23505 duplicate key value violates unique constraint \"t_pkey\"",
        "insert into t (email, age) values ('c', 0)" =>
            "23514 new row for relation \"t\" violates check constraint \"t_age_check\"",
        "update t set age = 200 where id = 1" =>
            "23514 new row for relation \"t\" violates check constraint \"young\"",
        "update t set id = null where id = 1" =>
            "23502 null value in column \"id\" of relation \"t\" violates not-null constraint",
        "insert into t (email) values ('a') on conflict do nothing" => "INSERT 0 0",
        "insert into t (id, email) values (1, 'z') on conflict (id) do update set email = excluded.email,
            age = t.age + 1 returning id, email, age" => "1|z|19",
        "insert into t (id) values (1) on conflict (age) do nothing" =>
            "42P10 there is no unique or exclusion constraint matching the ON CONFLICT specification",
        "select count(*) from t" => "2",
    );
}

#[tokio::test]
async fn columns_and_indexes_are_added_to_tables_with_rows() {
    let regions = Regions::new();
    let mut s = regions.session(1);
    check!(s,
        "create table t (a int primary key, b int)" => "CREATE TABLE",
        "insert into t values (1, 10), (2, 20), (3, 20)" => "INSERT 0 3",
        "alter table t add column c text default 'new'" => "ALTER TABLE",
        "select * from t where a = 2" => "2|20|new",
        "select a, c from t order by a" => "1|new\n2|new\n3|new",
        "create index t_b on t (b)" => "CREATE INDEX",
        "select a from t where b = 20 order by a" => "2\n3",
        "create unique index on t (b)" =>
            "23505 could not create unique index \"t_b_idx\"",
        "drop index t_b" => "DROP INDEX",
        "truncate t" => "TRUNCATE TABLE",
        "select count(*) from t" => "0",
        "create schema shop" => "CREATE SCHEMA",
        "create table shop.t (x int)" => "CREATE TABLE",
        "insert into shop.t values (7)" => "INSERT 0 1",
        "select * from shop.t" => "7",
        "set search_path = shop" => "SET",
        "select * from t" => "7",
        "drop schema shop" => "2BP01 cannot drop schema shop because other objects depend on it",
        "drop schema shop cascade" => "DROP SCHEMA",
        "select * from shop.t" => "42P01 relation \"shop.t\" does not exist",
    );
}

#[tokio::test]
async fn a_table_says_where_it_lives() {
    let regions = Regions::new();
    let mut s = regions.session(0);
    check!(s,
        "create table w (w_id int primary key, x int) with (home_by = 'w_id', home_map = 'list(1:us, 2:eu, 3:asia)')"
            => "CREATE TABLE",
        "create table item (i int primary key, x int) with (replicated = true)" => "CREATE TABLE",
        "create table far (i int primary key) with (home = 'asia')" => "CREATE TABLE",
        "create table moon (i int primary key) with (home = 'moon')" => "22023 region \"moon\" does not exist",
        "create table bad (i int primary key, j int) with (home_by = 'j')" =>
            "42P16 the home_by column must be part of the primary key",
        "insert into w values (1, 1), (2, 2), (3, 3)" => "INSERT 0 3",
        "insert into item values (1, 1), (2, 2)" => "INSERT 0 2",
        "insert into far values (5)" => "INSERT 0 1",
        "select * from w order by w_id" => "1|1\n2|2\n3|3",
        "select count(*) from item" => "2",
        "update item set x = x + 1 where i = 2 returning x" => "3",
        "select x from item where i = 2" => "3",
        "select * from far" => "5",
        "delete from item returning i" => "1\n2",
    );
    let mut asia = regions.session(2);
    check!(asia,
        "select x from w where w_id = 1" => "1",
        "update w set x = x + 10 where w_id = 2" => "UPDATE 1",
        "select sum(x) from w" => "16",
    );
}
