"""psycopg 3: parameters of all types, transactions, errors, COPY, cursors, pipelines, catalogs."""

import datetime as dt
import decimal
import os
import uuid

import psycopg
from psycopg import errors

URL = f"host=127.0.0.1 port={os.environ['MERIDIAN_PORT']} user=root dbname=meridian"

ALL = (
    7,
    2**40,
    decimal.Decimal("12.50"),
    1.5,
    True,
    "text ✓",
    b"\x00\xff",
    uuid.UUID(int=5),
    dt.date(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12, 30, 0, 250),
    dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.timezone.utc),
)

with psycopg.connect(URL) as db:
    db.execute("DROP VIEW IF EXISTS py_named")
    db.execute("DROP TABLE IF EXISTS py_all, py_many")
    db.execute(
        "CREATE TABLE py_all (i int PRIMARY KEY, b bigint, n numeric(10,2), f double precision, t boolean,"
        " s varchar(20) NOT NULL, y bytea, u uuid UNIQUE, d date, ts timestamp, tz timestamptz)"
    )
    db.commit()
    for binary in (False, True):
        with db.cursor(binary=binary) as cursor:
            cursor.execute(f"INSERT INTO py_all VALUES ({', '.join(['%s'] * len(ALL))})", ALL)
            assert cursor.execute("SELECT * FROM py_all WHERE i = %s", (7,)).fetchone() == ALL
            assert cursor.execute("SELECT * FROM py_all WHERE s LIKE %s", ("text%",)).fetchone() == ALL
        db.rollback()

    try:
        with db.transaction():
            db.execute("INSERT INTO py_all (i, s) VALUES (1, 'a')")
            with db.transaction():
                db.execute("INSERT INTO py_all (i, s) VALUES (2, 'b')")
                raise psycopg.Rollback
    finally:
        db.commit()
    assert db.execute("SELECT i, s FROM py_all").fetchall() == [(1, "a")]

    for sql, error in [
        ("INSERT INTO py_all (i, s) VALUES (1, 'twice')", errors.UniqueViolation),
        ("INSERT INTO py_all (i) VALUES (3)", errors.NotNullViolation),
        ("SELECT * FROM nowhere", errors.UndefinedTable),
        ("SELEC", errors.SyntaxError),
        ("SELECT 1 / 0", errors.DivisionByZero),
    ]:
        try:
            db.execute(sql)
            raise AssertionError(sql)
        except error:
            db.rollback()

    db.execute("CREATE TABLE py_many (k int PRIMARY KEY, v text)")
    with db.cursor() as cursor:
        with cursor.copy("COPY py_many (k, v) FROM STDIN") as copy:
            for k in range(500):
                copy.write_row((k, f"v{k}"))
        cursor.executemany("INSERT INTO py_many VALUES (%s, %s)", [(k, None) for k in range(500, 520)])
        with cursor.copy("COPY py_many TO STDOUT") as copy:
            assert len(list(copy.rows())) == 520
    with db.cursor(name="portions") as cursor:
        cursor.itersize = 100
        assert len(list(cursor.execute("SELECT * FROM py_many"))) == 520
    with db.pipeline():
        counts = [db.execute("SELECT count(*) FROM py_many WHERE k < %s", (k,)) for k in (5, 10)]
    assert [c.fetchone()[0] for c in counts] == [5, 10]
    assert db.execute("SELECT count(*) FROM py_many WHERE k = ANY(%s)", ([1, 2, 3],)).fetchone() == (3,)
    db.execute("CREATE VIEW py_named AS SELECT k, v FROM py_many WHERE v IS NOT NULL")
    assert db.execute("SELECT v FROM py_named WHERE k = %s", (3,)).fetchone() == ("v3",)
    db.commit()
    listed = db.execute("SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'py%' ORDER BY 1")
    assert [name for (name,) in listed] == ["py_all", "py_many", "py_named"]
