package guardtest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// memory is a correct guard in memory; fault makes it break one promise.
type memory struct {
	fault string

	mu    sync.Mutex
	marks map[string]guard.Token // guarded by mu
	data  map[string]string      // guarded by mu
	order []string               // guarded by mu; the keys by age, where only some are kept
}

func newMemory(fault string) Store {
	m := &memory{fault: fault, marks: make(map[string]guard.Token), data: make(map[string]string)}
	return Store{Sealer: m, Write: m.write, Read: m.read, Delete: m.delete, Restart: m.restart, LoseReply: m.loseReply, LoseRequest: m.loseRequest}
}

func (m *memory) is(fault string) bool { return m.fault == fault }

func (m *memory) key(resource string) string {
	switch m.fault {
	case "folds case":
		return strings.ToLower(resource)
	case "trims blanks":
		return strings.TrimRight(resource, " ")
	case "cuts names":
		return resource[:min(len(resource), 255)]
	}
	return resource
}

// step does everything in one atomic step, unless it is told not to.
func (m *memory) step(ctx context.Context, resource string, tok guard.Token, change func(key string)) error {
	if err := ctx.Err(); err != nil && !m.is("ignores the context") {
		return err
	}
	key := m.key(resource)
	if m.is("refuses long names") && len(resource) > 255 {
		return errors.New("name too long")
	}
	if tok <= 0 && m.is("takes zero for permission") {
		change(key)
		return nil
	}
	if err := guard.Check(resource, tok, 0); err != nil && !(m.is("takes any name") && guard.CheckResource(resource) != nil) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	highest := m.marks[key]
	if m.is("checks before the step") || m.is("checks before the step at first use") && highest == 0 {
		m.mu.Unlock()
		for range 20 {
			runtime.Gosched()
		}
		m.mu.Lock()
	}
	err := m.rule(resource, tok, highest)
	if err == nil || m.is("writes what it refuses") {
		change(key)
	}
	if err != nil {
		return err
	}
	m.marks[key] = tok
	if m.is("keeps 100 marks") && highest == 0 {
		m.order = append(m.order, key)
		if len(m.order) > 100 {
			delete(m.marks, m.order[0])
			m.order = m.order[1:]
		}
	}
	return nil
}

func (m *memory) rule(resource string, tok, highest guard.Token) error {
	stale := &guard.StaleError{Resource: resource, Token: tok, Highest: highest}
	switch m.fault {
	case "accepts lower tokens":
		return nil
	case "refuses equal tokens":
		if tok <= highest {
			return stale
		}
		return nil
	case "compares floats":
		if float64(tok) < float64(highest) {
			return stale
		}
		return nil
	case "compares texts":
		if tok.String() < highest.String() && highest != 0 {
			return stale
		}
		return nil
	case "wraps at 32 bits":
		if uint32(tok) < uint32(highest) {
			return stale
		}
		return nil
	case "says stale and unknown":
		if tok < highest {
			return errors.Join(stale, guard.ErrUnknown)
		}
		return nil
	case "hides the mark":
		if tok < highest {
			return guard.ErrStale
		}
		return nil
	case "reports another mark":
		if tok < highest {
			stale.Highest = tok
			return stale
		}
		return nil
	}
	if tok < highest {
		return stale
	}
	return nil
}

func (m *memory) write(ctx context.Context, resource string, tok guard.Token, value string) error {
	return m.step(ctx, resource, tok, func(key string) {
		switch {
		case m.is("loses writes"), m.is("loses empty values") && value == "":
		case m.is("cuts values"):
			m.data[key] = value[:min(len(value), 1<<16-1)]
		case m.is("trims values"):
			m.data[key] = strings.TrimSpace(value)
		default:
			m.data[key] = value
		}
	})
}

func (m *memory) read(_ context.Context, resource string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data[m.key(resource)], nil
}

func (m *memory) delete(ctx context.Context, resource string, tok guard.Token) error {
	if m.is("deletes after marking") || m.is("checks before it deletes") {
		return m.deleteInTwoSteps(ctx, resource, tok)
	}
	err := m.step(ctx, resource, tok, func(key string) { delete(m.data, key) })
	if err == nil && m.is("deletes the mark") {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.marks, resource)
	}
	return err
}

// deleteInTwoSteps leaves a round trip's time between the rule and the deletion.
func (m *memory) deleteInTwoSteps(ctx context.Context, resource string, tok guard.Token) error {
	first := m.Seal
	if m.is("checks before it deletes") {
		first = func(ctx context.Context, resource string, tok guard.Token) error {
			highest, err := m.Highest(ctx, resource)
			return errors.Join(err, guard.Check(resource, tok, highest))
		}
	}
	if err := first(ctx, resource, tok); err != nil {
		return err
	}
	time.Sleep(2 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.data, resource)
	m.marks[resource] = max(m.marks[resource], tok)
	return nil
}

func (m *memory) Seal(ctx context.Context, resource string, tok guard.Token) error {
	if m.is("does not seal") {
		return guard.Check(resource, tok, 0)
	}
	return m.step(ctx, resource, tok, func(key string) {
		if m.is("empties what it seals") {
			delete(m.data, key)
		}
	})
}

func (m *memory) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := ctx.Err(); err != nil && !m.is("ignores the context") {
		return 0, err
	}
	if err := guard.CheckResource(resource); err != nil && !m.is("takes any name") {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tok, ok := m.marks[m.key(resource)]
	if !ok && m.is("fails where nothing was marked") {
		return 0, errors.New("no rows")
	}
	return tok, nil
}

func (m *memory) restart(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.is("forgets marks in a restart") {
		clear(m.marks)
	}
	return nil
}

func (m *memory) loseReply(ctx context.Context, resource string, tok guard.Token, value string) error {
	if err := m.write(ctx, resource, tok, value); err != nil {
		return err
	}
	switch m.fault {
	case "calls a broken connection success":
		return nil
	case "calls a lost reply a failure":
		return errors.New("connection reset")
	case "calls a lost reply stale":
		return &guard.StaleError{Resource: resource, Token: tok, Highest: tok + 1}
	}
	return guard.ErrUnknown
}

func (m *memory) loseRequest(_ context.Context, resource string, tok guard.Token, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch highest := m.marks[resource]; m.fault {
	case "calls a broken connection success":
		return nil
	case "calls a lost request stale":
		return &guard.StaleError{Resource: resource, Token: tok, Highest: tok + 1}
	case "marks what never arrived":
		m.marks[resource] = max(highest, tok)
	}
	return guard.ErrUnknown
}
