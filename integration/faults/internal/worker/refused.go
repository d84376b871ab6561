//go:build unix

package worker

import (
	"context"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
)

// telling is a storage that says "refused RESOURCE TOKEN" when its guard has refused a write.
type telling struct {
	store.Store
	say func(format string, args ...any)
}

func (t telling) Write(ctx context.Context, resource string, tok guard.Token, w store.Write) error {
	err := t.Store.Write(ctx, resource, tok, w)
	if o, _ := store.OutcomeOf(err); o == history.Stale {
		t.say("refused %s %d", resource, tok)
	}
	return err
}
