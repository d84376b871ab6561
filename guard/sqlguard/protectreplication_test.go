package sqlguard_test

import (
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// The worker of a subscription writes rows as a replica does, and fires no triggers of statements:
// https://www.postgresql.org/docs/15/logical-replication-architecture.html
func TestSubscriptionCannotWritePastProtection(t *testing.T) {
	server := pgtest.Start(t, false, "wal_level=logical", "wal_retrieve_retry_interval=100ms")
	from, to := openDB(t, "pgx", server.Database(t)), openDB(t, "pgx", server.DSN("postgres"))
	for _, kind := range []string{"", " PARTITION BY RANGE (id)"} {
		g := newGuard(t, to, sqlguard.Postgres, nil)
		mustExec(t, from, "CREATE TABLE doc (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE doc",
			"SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
		mustExec(t, to, "CREATE TABLE doc (id int PRIMARY KEY)"+kind)
		if kind != "" {
			mustExec(t, to, "CREATE TABLE doc1 PARTITION OF doc DEFAULT")
		}
		mustExec(t, to, "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port="+value[string](t, from, "SHOW port")+" user=postgres dbname="+
			value[string](t, from, "SELECT current_database()")+"' PUBLICATION p WITH (create_slot = false, copy_data = false)")
		rows := func(want int) func() bool {
			return func() bool { return value[int](t, to, "SELECT count(*) FROM doc") == want }
		}
		mustExec(t, from, "INSERT INTO doc VALUES (1)")
		eventually(t, "an unprotected table is replicated", rows(1))

		protect(t, g, "doc")
		mustExec(t, to, "SELECT pg_stat_reset_subscription_stats(oid) FROM pg_subscription")
		mustExec(t, from, "INSERT INTO doc VALUES (2)", "DELETE FROM doc WHERE id = 1")
		eventually(t, "the worker is refused", func() bool {
			return value[int](t, to, "SELECT apply_error_count FROM pg_stat_subscription_stats") > 0
		})
		if !rows(1)() {
			t.Errorf("%s: the worker wrote past the protection", kind)
		}
		if err := g.Unprotect(t.Context(), "doc"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "what was refused comes after Unprotect", func() bool { return value[int](t, to, "SELECT sum(id) FROM doc") == 2 })

		mustExec(t, to, "ALTER SUBSCRIPTION s DISABLE", "ALTER SUBSCRIPTION s SET (slot_name = NONE)", "DROP SUBSCRIPTION s", "DROP TABLE doc")
		eventually(t, "the slot is free", func() bool { return !value[bool](t, from, "SELECT active FROM pg_replication_slots") })
		mustExec(t, from, "SELECT pg_drop_replication_slot('s')", "DROP PUBLICATION p", "DROP TABLE doc")
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came true that %s", what)
		}
	}
}
