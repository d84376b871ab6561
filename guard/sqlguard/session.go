package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// undoLimit bounds the statements that take a setting back, and how long an answer is waited for once the context has ended.
// A connection that is not that fast is closed instead.
const undoLimit = 2 * time.Second

// patiently runs f, which ends a transaction, and waits for it, but no longer than undoLimit after ctx has ended. It tells
// whether f has returned; if not, f goes on and ends with the connection. Drivers such as go-sql-driver/mysql look at no
// context while they wait for the answer to COMMIT or ROLLBACK, and database/sql keeps the connection locked meanwhile.
func patiently(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	t := time.NewTimer(undoLimit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// begin also returns the connection: what the transaction has done to its session, and what it says of itself, is there.
func (g *Guard) begin(ctx context.Context) (*sql.Tx, *sql.Conn, error) {
	opts := &sql.TxOptions{Isolation: g.opts.Isolation}
	tries := 0 // when all connections that the pool had then were broken, so are the new ones
	for n := 1; ; n++ {
		conn, err := g.db.Conn(ctx)
		if err != nil {
			return nil, nil, err
		}
		tx, err := conn.BeginTx(ctx, opts)
		if err == nil {
			return tx, conn, nil
		}
		if tries == 0 {
			tries = g.db.Stats().OpenConnections + 2
		}
		_ = conn.Close()
		// A pool begins on another connection then; nothing has been done on this one.
		if !errors.Is(err, driver.ErrBadConn) || n >= tries || ctx.Err() != nil {
			return nil, nil, err
		}
	}
}

// giveBack hands the connection to the pool as it was. If the setting cannot be taken back, nobody else gets the
// connection.
func giveBack(ctx context.Context, conn *sql.Conn, undo string, committed bool) {
	if undo != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		var err error
		if !committed {
			// Setting autocommit again would commit what is open, so nothing may be, however the transaction has ended.
			_, err = conn.ExecContext(ctx, "ROLLBACK")
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, undo)
		}
		if err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		}
	}
	_ = conn.Close() // gives it back, or is told that it is closed
}
