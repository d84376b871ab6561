//go:build unix

package story

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Stage is where a story is told.
type Stage struct {
	Dir   string   // for files
	Etcd  []string // endpoints
	Width int      // of the longest name in the timeline

	began time.Time
}

// NewStage begins a story.
func NewStage(dir string, etcd []string) *Stage {
	return &Stage{Dir: dir, Etcd: etcd, began: time.Now()}
}

// Say prints a line of the timeline.
func (s *Stage) Say(who, format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n"+strings.Repeat(" ", s.Width+14))
	fmt.Printf("%6.2f s  %*s  %s\n", time.Since(s.began).Seconds(), s.Width, who, text)
}

// Hear waits for these steps of a process, in this order, and prints what it tells about them.
func (s *Stage) Hear(ctx context.Context, p *Process, steps ...string) error {
	for _, want := range steps {
		e, err := p.next(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the step %q: %w", want, err)
		}
		s.Say(p.name, "%s", e.Text)
		if e.Step != want {
			return fmt.Errorf("%s should have come to the step %q, and came to %q", p.name, want, e.Step)
		}
	}
	return nil
}
