// node-postgres: parameters, transactions, errors, a pool.
const assert = require("node:assert");
const { Pool } = require("pg");

const pool = new Pool({ host: "127.0.0.1", port: process.env.MERIDIAN_PORT, user: "root", database: "meridian" });

async function main() {
  await pool.query("DROP TABLE IF EXISTS node_all");
  await pool.query(
    "CREATE TABLE node_all (i int PRIMARY KEY, b bigint, n numeric(10,2), f double precision, t boolean, " +
      "s text NOT NULL, y bytea, u uuid, ts timestamptz)",
  );
  const at = new Date(Date.UTC(2024, 1, 29, 12, 30));
  const row = [7, "1099511627776", "12.50", 1.5, true, "text ✓", Buffer.from([0, 255]), "00000000-0000-0000-0000-000000000005", at];
  await pool.query("INSERT INTO node_all VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)", row);
  const all = await pool.query({ name: "by key", text: "SELECT * FROM node_all WHERE i = $1", values: [7] });
  assert.deepStrictEqual(Object.values(all.rows[0]), row);

  const client = await pool.connect();
  await client.query("BEGIN");
  await client.query("INSERT INTO node_all (i, s) VALUES ($1, $2)", [8, "gone"]);
  await client.query("ROLLBACK");
  client.release();
  assert.equal((await pool.query("SELECT count(*)::int AS n FROM node_all")).rows[0].n, 1);
  assert.equal((await pool.query("SELECT i FROM node_all WHERE i = ANY($1)", [[7, 8]])).rowCount, 1);

  for (const [sql, code] of [
    ["INSERT INTO node_all (i, s) VALUES (7, 'x')", "23505"],
    ["INSERT INTO node_all (i) VALUES (9)", "23502"],
    ["SELECT * FROM nowhere", "42P01"],
  ]) {
    await assert.rejects(pool.query(sql), (error) => error.code === code);
  }
  await pool.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
