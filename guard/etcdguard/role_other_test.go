//go:build !unix

package etcdguard_test

// runRole has no roles where processes cannot be stopped.
func runRole() {}
