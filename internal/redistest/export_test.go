//go:build unix

package redistest

// Hide makes this process believe that Redis is not installed.
func Hide() { findServer = func() (string, error) { return "", errNotInstalled } }
