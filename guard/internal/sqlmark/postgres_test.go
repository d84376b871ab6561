package sqlmark_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencedlock/fencedlock/guard/internal/sqlmark"
)

func code(s string) error { return fmt.Errorf("commit: %w", &pgconn.PgError{Code: s}) }

// Only what proves a rollback may say so: whoever believes a commit failed runs it again.
func TestRolledBackBelievesProofOnly(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{code("40001"), true}, {code("40P01"), true}, {code("40002"), true},
		{code("40003"), false}, // statement_completion_unknown
		{code("23503"), true}, {code("23505"), true}, {code("P0001"), true}, {code("25P03"), true},
		{code("57P01"), false}, // admin_shutdown, also while waiting for a replica after the commit
		{code("57P02"), false}, {code("57014"), false}, {code("08006"), false}, {code("08P01"), false}, {code("58000"), false}, {code("XX000"), false},
		{io.ErrUnexpectedEOF, false}, {driver.ErrBadConn, false}, {context.Canceled, false}, {context.DeadlineExceeded, false},
		{pgx.ErrTxCommitRollback, true}, {fmt.Errorf("wrapped: %w", pgx.ErrTxCommitRollback), true},
		{errors.New("pq: Could not complete operation in a failed transaction"), true},
	} {
		if got := sqlmark.RolledBack(c.err); got != c.want {
			t.Errorf("RolledBack(%v) = %v; want %v", c.err, got, c.want)
		}
	}
}

func TestRetryableIsConflictsOnly(t *testing.T) {
	for s, want := range map[string]bool{"40001": true, "40P01": true, "40003": false, "23505": false, "57014": false, "55P03": false, "": false} {
		if got := sqlmark.Retryable(code(s)); got != want {
			t.Errorf("Retryable(%q) = %v; want %v", s, got, want)
		}
	}
	if sqlmark.Retryable(nil) || sqlmark.Retryable(errors.New("40001")) {
		t.Error("what carries no code is retryable")
	}
}

func TestPauseEndsWithTheContextAndStaysShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sqlmark.Pause(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("Pause = %v; want context.Canceled", err)
	}
	start := time.Now()
	if err := sqlmark.Pause(t.Context(), 1<<40); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("a pause took %v", d)
	}
}
