//go:build unix

// Package daemon runs a private server for tests from a program that is installed on the machine: in a temporary folder,
// as a user without rights, on a free port of 127.0.0.1. The server and its folder go away with the test process, also
// when that is killed.
package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// startLimit is enough for a loaded machine, and for crash recovery.
const startLimit = 60 * time.Second

// Config says what is to be run.
type Config struct {
	Name  string   // begins error texts and the folder's name
	Users []string // whom to run as if the test is run by root; the first that exists
	// AsRoot: the server does not mind root, or its program lies where only the test's user may read it.
	AsRoot bool

	// Program is the server's program and its arguments, for a folder and a port.
	Program func(dir string, port int) []string
	// Ping tells whether the server on the port answers.
	Ping func(port int) error
	// PIDFile is where in the folder the server writes its process id. "" is for servers that write none.
	PIDFile string
	// Quit is the signal that makes the server end at once, with all its processes.
	Quit syscall.Signal
}

// Daemon is one server with a folder of its own. Its methods are for one goroutine at a time.
type Daemon struct {
	Dir  string
	Port int // known once it was up, and kept

	c      Config
	cred   *syscall.Credential // nil: the user of the test
	reaper *exec.Cmd
	leash  io.Closer // closed by us or by our death: the reaper cleans up
	cmd    *exec.Cmd // nil: not running
	exited chan struct{}
	was    bool // it has been up, so its port is known to others
}

// Address is the server's host and port, once it was up.
func (d *Daemon) Address() string { return "127.0.0.1:" + strconv.Itoa(d.Port) }

// New makes the folder and starts what will clean it up. The server is not started yet.
func New(c Config) (*Daemon, error) {
	if c.PIDFile == "" {
		c.PIDFile, c.Program = "pid", written(c.Program)
	}
	d := &Daemon{c: c}
	var err error
	if !c.AsRoot {
		if d.cred, err = Unprivileged(c.Users...); err != nil {
			return nil, d.errorf("%w", err)
		}
	}
	if d.Dir, err = os.MkdirTemp("", "fencedlock-"+c.Name+"-"); err != nil {
		return nil, d.errorf("%w", err)
	}
	if d.cred != nil {
		if err := os.Chown(d.Dir, int(d.cred.Uid), int(d.cred.Gid)); err != nil {
			return nil, errors.Join(d.errorf("%w", err), os.RemoveAll(d.Dir))
		}
	}
	if err := d.startReaper(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(d.Dir))
	}
	return d, nil
}

// written puts a shell before the program, which writes the process id that the server keeps when it takes the shell's place.
func written(program func(string, int) []string) func(string, int) []string {
	return func(dir string, port int) []string {
		return append([]string{"/bin/sh", "-c", `echo $$ >pid && exec "$@"`, "sh"}, program(dir, port)...)
	}
}

// Run is New, and Up.
func Run(c Config) (*Daemon, error) {
	d, err := New(c)
	if err != nil {
		return nil, err
	}
	if err := d.Up(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Daemon) errorf(format string, args ...any) error {
	return fmt.Errorf(d.c.Name+": "+format, args...)
}

// startReaper starts the process that removes the folder when the test process has gone, however it went: it waits
// for the end of a pipe that only we hold. It runs as the server's user, so that it may.
func (d *Daemon) startReaper() error {
	const script = `read -r _
pid=$(head -n 1 "$1/$2" 2>/dev/null) && kill -"$3" "$pid" 2>/dev/null
n=0
while [ -n "$pid" ] && [ $n -lt 100 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; n=$((n+1)); done
rm -rf "$1"`
	c := exec.Command("/bin/sh", "-c", script, "sh", d.Dir, d.c.PIDFile, strconv.Itoa(int(d.c.Quit)))
	c.Dir = "/"
	// A group of its own: an interrupt from the keyboard must not stop it before it has cleaned up.
	c.SysProcAttr = &syscall.SysProcAttr{Credential: d.cred, Setpgid: true}
	leash, err := c.StdinPipe()
	if err != nil {
		return d.errorf("%w", err)
	}
	if err := c.Start(); err != nil {
		return d.errorf("%w", err)
	}
	d.reaper, d.leash = c, leash
	return nil
}

// Command runs as the server's user, and sees nothing of the caller's environment but PATH.
func (d *Daemon) Command(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir = d.Dir
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + d.Dir, "TMPDIR=" + d.Dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: d.cred, Setpgid: true}
	return c
}

// Up starts the server and waits until it answers. The port may be taken by somebody else between our look and its
// start, and after Kill the children of the old one need a moment to go: so it tries again.
func (d *Daemon) Up() error {
	deadline := time.Now().Add(startLimit)
	for try := 1; ; try++ {
		err := d.tryUp(deadline)
		if err == nil || time.Now().After(deadline) || !d.was && try == 3 {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (d *Daemon) tryUp(deadline time.Time) error {
	if d.Port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return d.errorf("%w", err)
		}
		d.Port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return d.errorf("%w", err)
		}
	}
	log, err := os.Create(filepath.Join(d.Dir, "log"))
	if err != nil {
		return d.errorf("%w", err)
	}
	defer log.Close()
	program := d.c.Program(d.Dir, d.Port)
	c := d.Command(program[0], program[1:]...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return d.errorf("%w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = c.Wait() // how it ended is in the log
		close(exited)
	}()
	d.cmd, d.exited = c, exited
	for {
		err := d.c.Ping(d.Port)
		if err == nil {
			d.was = true
			return nil
		}
		select {
		case <-exited:
			d.cmd = nil
			if !d.was {
				d.Port = 0
			}
			text, _ := os.ReadFile(log.Name())
			return d.errorf("the server ended: %w\n%s", err, text)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return d.errorf("the server does not answer: %w", err)
		}
	}
}

// Running tells whether the server was started and not ended.
func (d *Daemon) Running() bool { return d.cmd != nil }

// End sends the signal and returns when the server has gone.
func (d *Daemon) End(sig os.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(sig) // fails only when it has ended already
	select {
	case <-d.exited:
	case <-time.After(startLimit):
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
	d.cmd = nil
	// After a kill this holds a number that may belong to somebody else by the time the reaper reads it.
	_ = os.Remove(filepath.Join(d.Dir, d.c.PIDFile))
}

// Close stops the server and removes its folder.
func (d *Daemon) Close() {
	d.End(d.c.Quit) // its data is not needed any more
	_ = d.leash.Close()
	_ = d.reaper.Wait()
	_ = os.RemoveAll(d.Dir) // whatever the reaper could not remove
}
