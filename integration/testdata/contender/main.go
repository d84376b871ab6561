// Command contender locks "counter" again and again and, under the lock and the guard, raises a number in a database. It is
// built with two releases of the library, so it uses nothing that the older one has not.
//
//	contender DRIVER DSN migrate
//	contender DRIVER DSN contend ENDPOINT NAME ROUNDS
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	clientv3 "go.etcd.io/etcd/client/v3"
	_ "modernc.org/sqlite"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "contender:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	dialect := map[string]sqlguard.Dialect{"sqlite": sqlguard.SQLite, "pgx": sqlguard.Postgres}[args[0]]
	db, err := sql.Open(args[0], args[1])
	if err != nil {
		return err
	}
	defer db.Close()
	g, err := sqlguard.New(db, dialect, nil)
	if err != nil {
		return err
	}
	if err := g.Migrate(ctx); err != nil || args[2] == "migrate" {
		return err
	}
	rounds, err := strconv.Atoi(args[5])
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{args[3]}})
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := session.New(ctx, client, &session.Options{TTL: 10 * time.Second, Owner: args[4]})
	if err != nil {
		return err
	}
	c := contender{db: db, guard: g, name: args[4]}
	m := lock.NewMutex(s, "counter")
	// The other one is to be there, too.
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for range rounds {
		if err := m.Do(ctx, c.round); err != nil {
			return err
		}
	}
	return s.Close()
}

type contender struct {
	db    *sql.DB
	guard *sqlguard.Guard
	name  string
}

// round raises the counter in two steps, between which another holder's write would be lost.
func (c contender) round(ctx context.Context, h *lock.Held) error {
	if err := c.tryLate(ctx, h); err != nil {
		return err
	}
	var n int
	if err := c.db.QueryRowContext(ctx, "SELECT n FROM counter").Scan(&n); err != nil {
		return err
	}
	return c.guard.Do(ctx, h.Resource(), h.Token(), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE counter SET n = %d", n+1)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO history (name, token) VALUES ('%s', %d)", c.name, h.Token()))
		return err
	})
}

// tryLate writes with a token just below the last one, whose mark is the other release's more often than not.
func (c contender) tryLate(ctx context.Context, h *lock.Held) error {
	var last int64
	if err := c.db.QueryRowContext(ctx, "SELECT coalesce(max(token), 0) FROM history").Scan(&last); err != nil {
		return err
	}
	if last < 2 {
		return nil
	}
	err := c.guard.Do(ctx, h.Resource(), guard.Token(last-1), func(context.Context, *sql.Tx) error { return nil })
	var stale *guard.StaleError
	if !errors.As(err, &stale) || stale.Highest != guard.Token(last) {
		return fmt.Errorf("a write with token %d after %d: %v; want stale", last-1, last, err)
	}
	return nil
}
