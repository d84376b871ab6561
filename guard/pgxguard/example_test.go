package pgxguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/pgxguard"
	"github.com/fencedlock/fencedlock/internal/pgtest"
)

// The holder with token 7 is paused; its successor with token 9 withdraws first. The late withdrawal is refused.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	g, err := pgxguard.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Migrate(ctx); err != nil {
		log.Fatal(err)
	}
	withdraw := func(tok guard.Token) error { // with h.Resource() and h.Token() of a lock
		return g.Do(ctx, "account/alice", tok, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 'alice'")
			return err
		})
	}
	fmt.Println(withdraw(9))                            // <nil>
	fmt.Println(errors.Is(withdraw(7), guard.ErrStale)) // true
}

// The example needs a server, so it is run here.
func TestExampleDoesWhatItSays(t *testing.T) {
	dsn := pgtest.Schema(t)
	pool := openPool(t, dsn)
	mustExec(t, pool, "CREATE TABLE account (id text PRIMARY KEY, balance int)", "INSERT INTO account VALUES ('alice', 100)")
	t.Setenv("DATABASE_URL", dsn)
	Example()
	if got := value[int](t, pool, "SELECT balance FROM account"); got != 90 {
		t.Errorf("the balance is %d; want 90, after the one withdrawal that was not late", got)
	}
}
