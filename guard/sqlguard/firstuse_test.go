package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
)

// A resource that was never marked has no row to lock: SELECT FOR UPDATE locks nothing, and both insert, or DO NOTHING
// hides the winner: https://github.com/ExtendDB/extenddb/pull/250, https://github.com/bezhai/chiwei-platform/pull/231,
// https://github.com/superdesigndev/treg/pull/362
func TestTwoHoldersMeetWhereNothingWasMarked(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			t.Run(level.String(), func(t *testing.T) {
				db := b.open(t)
				g := newGuard(t, db, b.dialect, &sqlguard.Options{Isolation: level})
				mustExec(t, db, "CREATE TABLE log (id "+b.serial+" PRIMARY KEY, resource text, token bigint)")
				outcomes := make(map[string]int)
				for i := range 60 {
					r := fmt.Sprintf("r%d", i)
					var wg sync.WaitGroup
					start := make(chan struct{})
					var errs [2]error
					for k, tok := range []guard.Token{7, 9} {
						wg.Go(func() {
							<-start
							errs[k] = g.Do(t.Context(), r, tok, doExec(b.sql("INSERT INTO log (resource, token) VALUES ($1, $2)"), r, int64(tok)))
						})
					}
					close(start)
					wg.Wait()
					if errs[1] != nil {
						t.Fatalf("%s: token 9: %v", r, errs[1])
					}
					got := tokens(t, b, db, r)
					switch {
					case errs[0] == nil && got == "7 9 ", errors.Is(errs[0], guard.ErrStale) && got == "9 ":
						outcomes[got]++
					default:
						t.Errorf("%s: token 7: %v, and the log says %s", r, errs[0], got)
					}
				}
				t.Log(outcomes)
			})
		}
	})
}

func tokens(t *testing.T, b backend, db *sql.DB, resource string) (s string) {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), b.sql("SELECT token FROM log WHERE resource = $1 ORDER BY id"), resource)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var tok int64
		if err := rows.Scan(&tok); err != nil {
			t.Fatal(err)
		}
		s += fmt.Sprintf("%d ", tok)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}
