package sqlguard

import (
	"errors"
	"fmt"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

// otherDriversError is like that of go-mysql-org.
type otherDriversError struct {
	Code    uint16
	Message string
}

func (otherDriversError) Error() string { return "other" }

func TestNumberOfMySQLIsFoundInWrappedErrors(t *testing.T) {
	deadlock := &driver.MySQLError{Number: 1213, Message: "Deadlock found"}
	for _, c := range []struct {
		err  error
		want uint16
	}{
		{deadlock, 1213},
		{fmt.Errorf("wrapped: %w", deadlock), 1213},
		{errors.Join(errors.New("boom"), fmt.Errorf("wrapped: %w", deadlock)), 1213},
		{fmt.Errorf("%w and %w", errors.New("boom"), deadlock), 1213},
		{otherDriversError{Code: 1205}, 1205},
		{&otherDriversError{Code: 1205}, 1205},
		{nil, 0},
		{errors.New("Error 1213 (40001): Deadlock found"), 0},
		{(*driver.MySQLError)(nil), 0},
		{driver.ErrInvalidConn, 0},
		{errors.Join(errors.New("boom")), 0},
	} {
		if got := mysqlCode(c.err); got != c.want {
			t.Errorf("mysqlCode(%#v) = %d; want %d", c.err, got, c.want)
		}
	}
	m := newMySQL(`"t"`)
	for code, want := range map[uint16]struct{ again, rolledBack bool }{
		1213: {true, true}, 1205: {true, false}, 1020: {true, false}, 1062: {}, 1146: {}, 1180: {}, 0: {},
	} {
		err := fmt.Errorf("commit: %w", &driver.MySQLError{Number: code})
		if m.retryable(err) != want.again || m.rolledBack(err) != want.rolledBack {
			t.Errorf("%d: retryable %v, rolledBack %v", code, m.retryable(err), m.rolledBack(err))
		}
	}
}
