//! SQL: a grammar, and four ways to grow it.

pub mod amplify;
pub mod deep;
pub mod expr;
pub mod long;
pub mod random;

/// What every attacking session finds: made at the start of a run and again whenever an input has dropped it.
/// Rows are few, so that only what a statement asks for is large.
pub const SETUP: &[&str] = &[
    "create table if not exists t (id int primary key, a int, b bigint, c text, d numeric(12, 2), \
     e double precision, f boolean, g timestamptz, h date, i uuid, j varchar(20), k timestamp, l smallint, \
     m bytea)",
    "create table if not exists u (id int primary key, t_id int, x text not null default 'x', y numeric, \
     z int check (z > -1000000))",
    "create table if not exists s (k int, region text, v text, primary key (k, region)) \
     with (home_by = 'region', home_map = 'name')",
    "create table if not exists bulk (id int primary key, x text)",
    "create index if not exists t_a on t (a)",
    "create index if not exists u_t on u (t_id)",
    "insert into t select n, n % 7, n::bigint * 1000000007, 'row ' || n, n / 4.0, n * 0.5, n % 2 = 0, \
     '2026-01-01 00:00:00Z', '2026-01-01', null, 'v' || n, '2026-01-01 12:00:00', n % 100, null \
     from generate_series(1, 200) g(n) on conflict do nothing",
    "insert into u select n, n % 200, 'u' || n, n * 1.5, n from generate_series(1, 100) g(n) \
     on conflict do nothing",
    "insert into s select n, 'local', 'v' || n from generate_series(1, 50) g(n) on conflict do nothing",
];
