package pgtest

// Hide makes this process believe that PostgreSQL is not installed.
func Hide() { shared.Fail(errNotInstalled) }
