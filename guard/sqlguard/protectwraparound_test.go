package sqlguard_test

import (
	"strconv"
	"testing"

	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// The number in a row's xmin has 32 bits and stays when the row is frozen, so that of a transaction 2^32 later is the same:
// https://www.postgresql.org/docs/15/routine-vacuuming.html#VACUUM-FOR-WRAPAROUND
func TestProtectionIsNotFooledByTransactionNumbersThatWrapAround(t *testing.T) {
	server := pgtest.Start(t, false)
	db := openDB(t, "pgx", server.DSN("postgres"))
	g := newGuard(t, db, sqlguard.Postgres, nil)
	mustExec(t, db, "CREATE TABLE doc (n int)")
	protect(t, g, "doc")
	guarded(t, g, "INSERT INTO doc VALUES (1)")
	mustExec(t, db, "VACUUM FREEZE fencedlock_marks")
	xid := value[int](t, db, "SELECT xmin::text::int FROM fencedlock_marks WHERE resource = 'x'")
	server.ResetWAL(t, "-x", strconv.Itoa(xid), "-e", "1")

	db = openDB(t, "pgx", server.DSN("postgres"))
	tx := begin(t, db)
	var now int
	var same bool
	if err := tx.QueryRow("SELECT pg_current_xact_id()::xid::text::int, xmin = pg_current_xact_id()::xid FROM fencedlock_marks WHERE resource = 'x'").Scan(&now, &same); err != nil {
		t.Fatal(err)
	}
	if now != xid || !same {
		t.Fatalf("the transaction's number is %d; want %d again", now, xid)
	}
	if _, err := tx.Exec("INSERT INTO doc VALUES (2)"); err == nil {
		t.Error("a transaction of the same 32 bits as the one of an old check writes without a check")
	}
}
