package sqlmark

import "fmt"

// Rights says what a program needs that writes through a guard.
func (t Table) Rights() string {
	return fmt.Sprintf("a worker needs SELECT, INSERT and UPDATE on %s, SELECT and INSERT on %s, and DELETE on the latter for PruneOnce",
		string(t), string(t.Once()))
}

// Forbidden tells whether PostgreSQL refused a statement for want of a right: insufficient_privilege.
func Forbidden(err error) bool { return SQLState(err) == "42501" }
