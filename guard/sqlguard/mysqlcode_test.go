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

// embedding has the driver's error as a part of its own, which may be missing.
type embedding struct {
	*driver.MySQLError
	Text string
}

func (embedding) Error() string { return "embedding" }

// fnsError is an error of somebody's fn, whose code has nothing to do with the database.
type fnsError struct{ Code uint16 }

func (fnsError) Error() string { return "the invoice has error 1205" }

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
		{embedding{MySQLError: deadlock}, 1213},
		{embedding{}, 0},
		{&embedding{}, 0},
		{fnsError{1205}, 0},
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

type fnsCode int

func (fnsCode) Error() string { return "the invoice has five errors" }

func (c fnsCode) Code() int { return int(c) }

// An error that has nothing to do with the database must not make Do run fn again, whatever number it has.
func TestCodesOfOtherErrorsAreNotTakenForSQLites(t *testing.T) {
	s := sqlite{}
	for _, code := range []int{5, 261, 262, 517} {
		if err := fmt.Errorf("wrapped: %w", fnsCode(code)); s.retryable(err) || s.rolledBack(err) {
			t.Errorf("%d of fn's own is taken for a conflict", code)
		}
	}
	if !s.retryable(errors.Join(fnsCode(1), errors.New("database is locked"))) {
		t.Error("a conflict behind an error with another code is not found")
	}
}
