"""asyncpg: binary parameters of all types, transactions, errors, COPY, cursors."""

import asyncio
import datetime as dt
import decimal
import os
import uuid

import asyncpg

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


async def main():
    port = int(os.environ["MERIDIAN_PORT"])
    db = await asyncpg.connect(host="127.0.0.1", port=port, user="root", database="meridian")
    await db.execute("DROP TABLE IF EXISTS apg_all")
    await db.execute(
        "CREATE TABLE apg_all (i int PRIMARY KEY, b bigint, n numeric(10,2), f double precision, t boolean,"
        " s varchar(20) NOT NULL, y bytea, u uuid, d date, ts timestamp, tz timestamptz)"
    )
    places = ", ".join(f"${n + 1}" for n in range(len(ALL)))
    await db.execute(f"INSERT INTO apg_all VALUES ({places})", *ALL)
    assert tuple(await db.fetchrow("SELECT * FROM apg_all WHERE i = $1", 7)) == ALL

    transaction = db.transaction()
    await transaction.start()
    await db.execute("INSERT INTO apg_all (i, s) VALUES ($1, $2)", 8, "gone")
    await transaction.rollback()
    async with db.transaction():
        await db.executemany("INSERT INTO apg_all (i, s) VALUES ($1, $2)", [(n, "x") for n in range(10, 20)])
        assert len([row async for row in db.cursor("SELECT i FROM apg_all WHERE i >= $1", 10)]) == 10
    assert await db.fetchval("SELECT count(*) FROM apg_all") == 11
    assert await db.fetchval("SELECT count(*) FROM apg_all WHERE i = ANY($1::int[])", [10, 11]) == 2

    for sql, error in [
        ("INSERT INTO apg_all (i, s) VALUES (7, 'x')", asyncpg.UniqueViolationError),
        ("INSERT INTO apg_all (i) VALUES (70)", asyncpg.NotNullViolationError),
        ("SELECT * FROM nowhere", asyncpg.UndefinedTableError),
    ]:
        try:
            await db.execute(sql)
            raise AssertionError(sql)
        except error:
            pass
    await db.copy_records_to_table("apg_all", records=[(n, "c") for n in range(100, 200)], columns=["i", "s"])
    assert await db.fetchval("SELECT count(*) FROM apg_all WHERE s = 'c'") == 100
    await db.close()


asyncio.run(main())
