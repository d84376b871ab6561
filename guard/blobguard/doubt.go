package blobguard

import (
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
)

// applied tells whether the object shows that my request was applied: it is mine, or was sealed since by another with all that I
// wrote, or mine is among those before it.
func (w *writing) applied(r record) bool {
	n := w.nonce
	return r.stamped && (r.stamp.nonce == n || r.stamp.content == n || r.stamp.before == n || r.stamp.past.has(n))
}

// judge compares the mark. Where a request may have been applied, it first finds out from the object, which does not show mine,
// whether it was.
//
// An object is replaced once, by the one write that finds its condition. So if something else took the place of the one that my
// request asked for, mine was not there, and will not be: neither a version nor a nonce comes again, as long as nobody purges.
func (w *writing) judge(r record) error {
	if w.doubt != nil {
		mark, asked := r.stamp.token, w.asked.id
		switch {
		case r.version == w.asked.version:
			return nil // as it was: the request may come again, or late, and only one of them finds its condition
		case !r.stamped:
			return w.unknown(errors.New("the object was written without the guard since"))
		case mark < w.tok: // after mine it would not be lower
		case r.stamp.past.has(asked): // and all that came since, of which mine is none
		case mark > w.tok && r.stamp.before == asked: // those since had the higher mark
		case mark == w.tok:
			return w.unknown(errors.New("many writes with the same token were made since"))
		default:
			return w.unknown(fmt.Errorf("many writes were made since, up to a mark of %d", int64(mark)))
		}
		w.doubt = nil
	}
	return guard.Check(w.resource, w.tok, r.stamp.token)
}

func (w *writing) wrap(err error) error { return fmt.Errorf("blobguard: %q: %w", w.resource, err) }

func (w *writing) unknown(why error) error {
	return w.wrap(fmt.Errorf("%w: a request ended with %w, and %w; look before you go on", guard.ErrUnknown, w.doubt, why))
}

// failed is for an end that says nothing about an earlier request.
func (w *writing) failed(err error) error {
	if w.doubt != nil {
		return w.unknown(err)
	}
	return w.wrap(fmt.Errorf("nothing was written: %w", err))
}

// gaveUp is for tries that are used up, after the last of which the write was not there.
func (w *writing) gaveUp() error {
	if w.doubt != nil {
		return w.unknown(errors.New("later ones did not come either"))
	}
	return w.wrap(fmt.Errorf("%w (%w)", ErrBusy, w.last))
}

// unread is for a request of which nobody saw what became of it.
func (w *writing) unread(err error) error {
	return w.failed(fmt.Errorf("the object cannot be read after it: %w", err))
}
