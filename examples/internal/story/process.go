//go:build unix

package story

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// jobVariable holds the job of a process.
const jobVariable = "FENCEDLOCK_STORY_JOB"

// Patience is how long a process may take for one step. The longest is the wait for the end of another one's lease.
const Patience = 15 * time.Second

// event is what a process tells about one step, as a line of JSON on its standard output.
type event struct {
	Step string
	Text string
}

// HasJob reports whether this process was started by [Stage.Start].
func HasJob() bool {
	_, has := os.LookupEnv(jobVariable)
	return has
}

func runJob[Job any](encoded string, work func(context.Context, Job, Tell) error) error {
	var j Job
	if err := json.Unmarshal([]byte(encoded), &j); err != nil {
		return fmt.Errorf("%s is set, and holds no job: %w", jobVariable, err)
	}
	out := json.NewEncoder(os.Stdout)
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	return work(ctx, j, func(step, format string, args ...any) {
		if err := out.Encode(event{step, fmt.Sprintf(format, args...)}); err != nil {
			stop(fmt.Errorf("the stage is gone: %w", err))
		}
	})
}

// Process runs this program in a process of its own.
type Process struct {
	name   string
	cmd    *exec.Cmd
	cancel context.CancelFunc
	stdin  io.WriteCloser
	stderr bytes.Buffer
	events chan event // closed when the process has ended
	err    error      // how it ended; set before events is closed
}

// Start runs a process, which gets the files from number 3 on, until its end, until End is called, or until ctx ends.
func (s *Stage) Start(ctx context.Context, name string, job any, files ...*os.File) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{name: name, cmd: exec.CommandContext(ctx, program), cancel: cancel, events: make(chan event, 10)}
	p.cmd.Env = append(os.Environ(), jobVariable+"="+string(encoded))
	p.cmd.ExtraFiles = files
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.stdin, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s did not start: %w", name, err)
	}
	go p.read(stdout)
	return p, nil
}

func (p *Process) read(stdout io.Reader) {
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

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// End kills the process if it still runs, stopped or not, and returns when it is gone.
func (p *Process) End() {
	p.cancel()
	for range p.events {
	}
}

// Ended waits for the end of a process that tells nothing, or of ctx, and returns how the process ended.
func (p *Process) Ended(ctx context.Context) error {
	select {
	case <-p.events:
		return p.endedEarly()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next returns what the process tells next.
func (p *Process) next(ctx context.Context) (event, error) {
	select {
	case e, ok := <-p.events:
		if !ok {
			return e, p.endedEarly()
		}
		return e, nil
	case <-time.After(Patience):
		return event{}, fmt.Errorf("%s has told nothing for %v", p.name, Patience)
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

func (p *Process) endedEarly() error {
	return fmt.Errorf("%s ended too early: %w", p.name, p.err)
}

// wait returns nil when the process has ended as it should.
func (p *Process) wait(ctx context.Context) error {
	e, err := p.next(ctx)
	if err == nil {
		return fmt.Errorf("%s should have been done, and told: %s", p.name, e.Text)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %v to %s: %w", s, p.name, err)
	}
	return nil
}

// goOn sends the line on standard input that the process waits for.
func (p *Process) goOn() error {
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
