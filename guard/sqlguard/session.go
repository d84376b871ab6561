package sqlguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"
)

// undoLimit bounds the statement that takes a setting back. A connection that is not that fast is closed instead.
const undoLimit = 2 * time.Second

// begin also returns the connection where something may have to be undone in its session after the transaction, else nil.
func (g *Guard) begin(ctx context.Context) (*sql.Tx, *sql.Conn, error) {
	opts := &sql.TxOptions{Isolation: g.opts.Isolation}
	if !g.d.limitsSession() {
		tx, err := g.db.BeginTx(ctx, opts)
		return tx, nil, err
	}
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	tx, err := conn.BeginTx(ctx, opts)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return tx, conn, nil
}

// giveBack hands the connection to the pool as it was. If the setting cannot be taken back, also because the context
// has ended meanwhile, nobody else gets the connection.
func giveBack(ctx context.Context, conn *sql.Conn, undo string) {
	if conn == nil {
		return
	}
	if undo != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		if _, err := conn.ExecContext(ctx, undo); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		}
	}
	_ = conn.Close() // gives it back, or is told that it is closed
}
