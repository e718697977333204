// pgx: parameters, transactions, errors, batches, COPY.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	url := fmt.Sprintf("postgres://root@127.0.0.1:%s/meridian?sslmode=disable", os.Getenv("MERIDIAN_PORT"))
	db, err := pgx.Connect(ctx, url)
	must(err)
	defer db.Close(ctx)
	exec := func(sql string, values ...any) {
		_, err := db.Exec(ctx, sql, values...)
		must(err)
	}
	exec("DROP TABLE IF EXISTS pgx_all")
	exec("CREATE TABLE pgx_all (i int PRIMARY KEY, b bigint, n numeric(10,2), f double precision, t boolean, " +
		"s text NOT NULL, y bytea, u uuid, d date, tz timestamptz)")
	at := time.Date(2024, 2, 29, 12, 30, 0, 0, time.UTC)
	exec("INSERT INTO pgx_all VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", 7, int64(1)<<40, "12.50", 1.5, true,
		"text ✓", []byte{0, 255}, "00000000-0000-0000-0000-000000000005", at, at)
	var b int64
	var s string
	var y []byte
	var tz time.Time
	must(db.QueryRow(ctx, "SELECT b, s, y, tz FROM pgx_all WHERE i = $1", 7).Scan(&b, &s, &y, &tz))
	if b != 1<<40 || s != "text ✓" || len(y) != 2 || !tz.Equal(at) {
		log.Fatal("another row: ", b, s, y, tz)
	}

	tx, err := db.Begin(ctx)
	must(err)
	_, err = tx.Exec(ctx, "INSERT INTO pgx_all (i, s) VALUES ($1, $2)", 8, "gone")
	must(err)
	must(tx.Rollback(ctx))

	batch := &pgx.Batch{}
	for n := 10; n < 20; n++ {
		batch.Queue("INSERT INTO pgx_all (i, s) VALUES ($1, $2)", n, "batch")
	}
	must(db.SendBatch(ctx, batch).Close())
	rows := [][]any{{100, "copy"}, {101, "copy"}}
	count, err := db.CopyFrom(ctx, pgx.Identifier{"pgx_all"}, []string{"i", "s"}, pgx.CopyFromRows(rows))
	must(err)
	var all int
	must(db.QueryRow(ctx, "SELECT count(*) FROM pgx_all WHERE i = ANY($1)", []int{7, 8, 10, 100}).Scan(&all))
	if count != 2 || all != 3 {
		log.Fatal("rows: ", count, " ", all)
	}

	for sql, state := range map[string]string{
		"INSERT INTO pgx_all (i, s) VALUES (7, 'x')": "23505",
		"SELECT * FROM nowhere":                      "42P01",
	} {
		_, err := db.Exec(ctx, sql)
		var told *pgconn.PgError
		if !errors.As(err, &told) || told.Code != state {
			log.Fatal(sql, ": ", err)
		}
	}
}
