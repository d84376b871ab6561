package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// A request that was admitted and then stood still, on the network or in the server, while its successor came and wrote:
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html. Admission lets both through, and only the
// guard in the storage keeps the late one out.
func TestALateRequestCannotOverwriteItsSuccessor(t *testing.T) {
	for _, c := range []struct {
		name    string
		guarded bool
		stored  string
	}{{"guarded storage", true, "successor"}, {"storage without a guard", false, "late"}} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, proto string) {
				s := newStore(t)
				admitted, goOn := make(chan struct{}), make(chan struct{})
				url, base := serve(t, proto, httpguard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					value, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					resource, tok, _ := guard.FromContext(r.Context())
					if tok == 7 {
						close(admitted)
						<-goOn
					}
					if c.guarded {
						err = s.exec(r.Context(), upsert, resource, value)
					} else {
						_, err = s.db.ExecContext(r.Context(), upsert, resource, value)
					}
					if err != nil && !httpguard.WriteError(w, err) {
						t.Error(err)
					}
				}), nil))
				rt := &httpguard.Transport{Base: base}
				write := func(tok guard.Token, value string) error {
					resp, err := put(guard.NewContext(context.Background(), "a", tok), rt, url, value)
					if err == nil {
						text(t, resp)
					}
					return err
				}
				late := make(chan error)
				go func() { late <- write(7, "late") }()
				<-admitted
				if err := write(9, "successor"); err != nil {
					t.Error(err)
				}
				close(goOn)
				err := <-late
				var stale *guard.StaleError
				if c.guarded && (!errors.As(err, &stale) || stale.Highest != 9) || !c.guarded && err != nil {
					t.Errorf("the late write: %v", err)
				}
				if got := s.read(t, "a"); got != c.stored {
					t.Errorf("stored %q; want %q", got, c.stored)
				}
			})
		})
	}
}
