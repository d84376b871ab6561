//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// jobVariable makes this program a client or a server: it holds the job.
const jobVariable = "SERVICE_JOB"

// patience is how long a process may take for one step. The longest is B's wait for the end of A's lease.
const patience = 15 * time.Second

// job is what a process is told to do: to serve File, or else to change the balance through the server at URL.
type job struct {
	Name    string   // of the process
	File    string   // a server's database
	Etcd    []string // endpoints
	URL     string   // of the server
	Amount  int      // to add to the balance
	Guarded bool
}

// event is what a process tells about one step, as a line of JSON on its standard output.
type event struct {
	Step string
	Text string
}

func jobMain(encoded string) error {
	var j job
	if err := json.Unmarshal([]byte(encoded), &j); err != nil {
		return fmt.Errorf("%s is set, and holds no job: %w", jobVariable, err)
	}
	ctx := context.Background()
	if j.File != "" {
		// The stage keeps the listener and hands it to each server, as systemd does: its port stays ours between two of them.
		l, err := net.FileListener(os.NewFile(3, "listener"))
		if err != nil {
			return err
		}
		return serve(ctx, j.File, l)
	}
	out := json.NewEncoder(os.Stdout)
	return work(ctx, j, func(step, format string, args ...any) {
		if err := out.Encode(event{step, fmt.Sprintf(format, args...)}); err != nil {
			exit(err) // the stage is gone
		}
	})
}

// process runs this program as a client or a server.
type process struct {
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stdin  io.WriteCloser
	stderr bytes.Buffer
	events chan event // closed when the process has ended
	err    error      // how it ended; set before events is closed
}

// start runs a process until its end, until end is called, or until ctx ends. A server gets the listener.
func start(ctx context.Context, j job, listener ...*os.File) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &process{name: j.Name, cmd: exec.CommandContext(ctx, program), cancel: cancel, events: make(chan event, 10)}
	p.cmd.Env = append(os.Environ(), jobVariable+"="+string(encoded))
	p.cmd.Stderr = &p.stderr
	p.cmd.ExtraFiles = listener
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s did not start: %w", j.Name, err)
	}
	go p.read(stdout)
	return p, nil
}

func (p *process) read(stdout io.Reader) {
	defer close(p.events)
	for in := json.NewDecoder(stdout); ; {
		var e event
		if err := in.Decode(&e); err != nil {
			if waitErr := p.cmd.Wait(); waitErr != nil {
				err = fmt.Errorf("%w: %s", waitErr, bytes.TrimSpace(p.stderr.Bytes()))
			}
			p.err = err
			return
		}
		p.events <- e
	}
}

// end kills the process if it still runs, stopped or not, and returns when it is gone.
func (p *process) end() {
	p.cancel()
	for range p.events {
	}
}

// next returns what the process tells next.
func (p *process) next(ctx context.Context) (event, error) {
	select {
	case e, ok := <-p.events:
		if !ok {
			return e, p.endedEarly()
		}
		return e, nil
	case <-time.After(patience):
		return event{}, fmt.Errorf("%s has told nothing for %v", p.name, patience)
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

func (p *process) endedEarly() error {
	return fmt.Errorf("%s ended too early: %w", p.name, p.err)
}

// wait returns nil when the client has ended as it should.
func (p *process) wait(ctx context.Context) error {
	e, err := p.next(ctx)
	if err == nil {
		return fmt.Errorf("%s should have been done, and told: %s", p.name, e.Text)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (p *process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %v to %s: %w", s, p.name, err)
	}
	return nil
}

// goOn lets the client make its write.
func (p *process) goOn() error {
	select {
	case _, ok := <-p.events:
		if !ok {
			return p.endedEarly()
		}
	default:
	}
	if _, err := io.WriteString(p.stdin, "go on\n"); err != nil {
		return fmt.Errorf("telling %s to go on: %w", p.name, err)
	}
	return nil
}
