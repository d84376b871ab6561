package history

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Recorder appends events to a file, each at once, so that those of a process that is killed are there.
type Recorder struct {
	who string
	mu  sync.Mutex
	f   *os.File
	err error // the first failure; guarded by mu
}

// NewRecorder makes the file.
func NewRecorder(path, who string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return &Recorder{who: who, f: f}, nil
}

// Add writes the event, with the time of now unless it has one. A failure to do so is the error of Close.
func (r *Recorder) Add(e Event) {
	if e.T == 0 {
		e.T = Now()
	}
	e.Who = r.who
	line, err := json.Marshal(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.f.Write(append(line, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Close closes the file, and returns what was not written.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.f.Close(); r.err == nil {
		r.err = err
	}
	return r.err
}
