package mariadbtest

// Hide makes this process believe that MariaDB is not installed.
func Hide() { shared.Fail(errNotInstalled) }
