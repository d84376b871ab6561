package child

import "syscall"

// attr lets the child die with its parent, and leaves it to the parent what a terminal's signals mean.
func attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
