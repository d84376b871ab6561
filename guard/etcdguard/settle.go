package etcdguard

import (
	"context"
	"fmt"
)

// settle ends a write that is not to be sent again, and finds out what became of it; err is its last answer, or the lack of
// one. nil: it was applied.
//
// No answer speaks for all that was sent: the client sends again by itself and returns what it hears last, so that a refusal
// may hide an earlier sending that was applied, or is still under way. So the mark is moved on from the base, as Seal does
// but without raising it. What was sent on the base is then either found in the mark or will never be applied.
func (a *attempts) settle(ctx context.Context, err error) error {
	end := *a
	end.ops, end.tok, end.by = nil, a.base.token, last{a.by.instance, newNumber()}
	if _, endErr := end.send(ctx); endErr != nil {
		err = fmt.Errorf("%w; moving the mark on, so that nothing can be applied later: %w", err, endErr)
	}
	now, readErr := a.g.read(ctx, a.resource)
	if readErr != nil {
		return because(ctx, a.unknown(fmt.Errorf("%w; %w", err, readErr)))
	}
	switch now.fate(a.base, a.tok, a.by) {
	case applied:
		a.move(now)
		return nil
	case missed:
		a.move(now)
		return a.refused(err)
	}
	return because(ctx, a.unknown(err))
}
