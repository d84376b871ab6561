//go:build unix

package s3test

// Hide makes this process believe that versitygw is not installed.
func Hide() { shared.Fail(errNotInstalled) }
