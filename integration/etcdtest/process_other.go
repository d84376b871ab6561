//go:build !linux

package etcdtest

import "syscall"

// dieWithParent can do nothing here: a test process that is killed leaves the server running.
func dieWithParent() *syscall.SysProcAttr { return nil }
