package sqlguard_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// database/sql closes the rows that are left open when it commits, but Do's look at the transaction comes before. Where the
// driver cannot send it, the error says what to do, and nothing is stored.
func TestRowsLeftOpenAreNamedOrHarmless(t *testing.T) {
	for _, b := range append(backends, mute) {
		t.Run(b.name, func(t *testing.T) {
			db := b.open(t)
			g := newGuard(t, db, b.dialect, nil)
			mustExec(t, db, "CREATE TABLE doc (n int)", "INSERT INTO doc VALUES (1)", "INSERT INTO doc VALUES (2)")
			look := func(leaveOpen bool) error {
				return g.Do(t.Context(), "x", 5, func(ctx context.Context, tx *sql.Tx) error {
					if err := doExec("INSERT INTO doc VALUES (3)")(ctx, tx); err != nil {
						return err
					}
					rows, err := tx.QueryContext(ctx, "SELECT n FROM doc")
					if err != nil {
						return err
					}
					if !rows.Next() || !leaveOpen {
						return errors.Join(rows.Err(), rows.Close())
					}
					return nil
				})
			}
			want := 3
			if err := look(true); err != nil {
				want--
				if !strings.Contains(err.Error(), "close the rows") || errors.Is(err, guard.ErrUnknown) {
					t.Errorf("Do = %v; want an error about rows", err)
				}
			}
			if n := value[int](t, db, "SELECT count(*) FROM doc"); n != want {
				t.Errorf("%d rows; want %d", n, want)
			}
			if err := look(false); err != nil {
				t.Errorf("with rows closed: Do = %v", err)
			}
		})
	}
}
