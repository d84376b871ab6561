package sqlguard_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/sqlguard"
	"github.com/fencedlock/fencedlock/internal/mariadbtest"
)

// A network that drops everything closes no connection, and the driver waits for answers to COMMIT and ROLLBACK without a
// limit, whatever the context says: https://github.com/go-sql-driver/mysql/issues/257, https://github.com/go-sql-driver/mysql/issues/375
func TestDoReturnsThoughTheNetworkIsSilent(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name, from string // the statement that is dropped first
		fn         func(ctx context.Context, tx *sql.Tx, n *silence) error
		want       []error
	}{
		{"inside fn", "", func(ctx context.Context, tx *sql.Tx, n *silence) error {
			n.begin()
			for !errors.Is(tx.Commit(), sql.ErrTxDone) { // until database/sql has begun to roll back
				time.Sleep(time.Millisecond)
			}
			return ctx.Err()
		}, []error{context.Canceled}},
		{"at ROLLBACK", "ROLLBACK", func(context.Context, *sql.Tx, *silence) error { return boom }, []error{boom}},
		{"at COMMIT", "COMMIT", func(context.Context, *sql.Tx, *silence) error { return nil }, []error{guard.ErrUnknown, context.Canceled}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := mysql.ParseDSN(mariadbtest.Database(t))
			if err != nil {
				t.Fatal(err)
			}
			direct := newGuard(t, openDB(t, "mysql", cfg.FormatDSN()), sqlguard.MySQL, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := &silence{from: c.from, began: cancel, ended: make(chan struct{})}
			cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				n.Conn = conn
				return n, err
			}
			cfg.Logger = &mysql.NopLogger{}
			connector, err := mysql.NewConnector(cfg)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			defer db.Close()
			db.SetMaxOpenConns(1)
			g, err := sqlguard.New(db, sqlguard.MySQL, nil)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				done <- g.Do(ctx, "x", 5, func(ctx context.Context, tx *sql.Tx) error { return c.fn(ctx, tx, n) })
			}()
			select {
			case err = <-done:
			case <-time.After(20 * time.Second):
				_ = n.Close()
				t.Fatalf("Do waits though its context has ended, and returns %v when the connection is closed", <-done)
			}
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("Do = %v; want %v", err, want)
				}
			}
			if len(c.want) == 1 && errors.Is(err, guard.ErrUnknown) {
				t.Errorf("Do = %v, though no COMMIT was sent", err)
			}
			// TCP gives up, and with it everything that waited. Nobody else gets the connection.
			_ = n.Close()
			for deadline := time.Now().Add(20 * time.Second); db.Stats().OpenConnections > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the connection is still there: %+v", db.Stats())
				}
			}
			if err := direct.Seal(t.Context(), "x", 6); err != nil {
				t.Errorf("the next holder: %v", err)
			}
		})
	}
}

// silence is a connection whose network drops everything both ways, from begin or a statement on until it is closed.
type silence struct {
	net.Conn
	from  string
	began func()
	on    atomic.Bool
	once  sync.Once
	ended chan struct{}
}

func (s *silence) begin() {
	s.on.Store(true)
	s.began()
}

func (s *silence) Write(b []byte) (int, error) {
	if s.from != "" && bytes.HasSuffix(b, []byte(s.from)) {
		s.begin()
	}
	if s.on.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

func (s *silence) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.on.Load() {
		<-s.ended
		return 0, net.ErrClosed
	}
	return n, err
}

func (s *silence) Close() error {
	s.once.Do(func() { close(s.ended) })
	return s.Conn.Close()
}
