package pgtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencedlock/fencedlock/internal/pgtest"
)

func TestProxyLosesWhatItSays(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  pgtest.CommitFault
		stored bool
	}{{"reply", pgtest.LoseReply, true}, {"request", pgtest.LoseRequest, false}, {"delayed request", pgtest.DelayRequest, true}} {
		t.Run(c.name, func(t *testing.T) {
			dsn := pgtest.Schema(t)
			exec1(t, dsn, "CREATE TABLE x (n int)")
			p, through := pgtest.NewProxy(t, dsn)
			conn, err := pgx.Connect(t.Context(), through)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "INSERT INTO x VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			hit := p.Fail(c.fault)
			if err := tx.Commit(t.Context()); err == nil {
				t.Error("COMMIT was answered")
			}
			<-hit
			if c.fault == pgtest.DelayRequest {
				exec1(t, dsn, "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM x); END $$")
				p.Release()
			}
			// Waits for the other transaction's end, since it takes a lock that conflicts with its insert.
			exec1(t, dsn, "BEGIN; LOCK TABLE x; COMMIT")
			want := "NOT EXISTS"
			if c.stored {
				want = "EXISTS"
			}
			exec1(t, dsn, "DO $$ BEGIN ASSERT "+want+" (SELECT FROM x); END $$")
		})
	}
}
