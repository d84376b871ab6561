package grpcguard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// A call that was admitted and then stood still, on the network or in the server, while its successor came and wrote:
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html. Admission lets both through, and only the
// guard in the storage keeps the late one out.
func TestALateCallCannotOverwriteItsSuccessor(t *testing.T) {
	for _, c := range []struct {
		name    string
		guarded bool
		stored  string
	}{{"guarded storage", true, "successor"}, {"storage without a guard", false, "late"}} {
		t.Run(c.name, func(t *testing.T) {
			store := newStore(t)
			admitted, goOn := make(chan struct{}), make(chan struct{})
			s := serve(t, nil, func(ctx context.Context, method string, in []byte) ([]byte, error) {
				resource, tok, _ := guard.FromContext(ctx)
				if tok == 7 {
					close(admitted)
					<-goOn
				}
				if c.guarded {
					return store.handle(ctx, method, in)
				}
				_, err := store.db.ExecContext(ctx, upsert, resource, string(in))
				return nil, err
			})
			conn := dial(t, s.addr, guarded(nil)...)
			late := make(chan error)
			go func() {
				_, err := call(guard.NewContext(context.Background(), "a", 7), conn, methodPut, "late")
				late <- err
			}()
			<-admitted
			if _, err := call(guard.NewContext(t.Context(), "a", 9), conn, methodPut, "successor"); err != nil {
				t.Error(err)
			}
			close(goOn)
			err := <-late
			var stale *guard.StaleError
			if c.guarded && (!errors.As(err, &stale) || stale.Highest != 9) || !c.guarded && err != nil {
				t.Errorf("the late write: %v", err)
			}
			store.stored(t, "a", c.stored)
		})
	}
}
