//go:build unix

package gcsbucket_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/storage"

	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/internal/gcstest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// Were a deletion sent again in secret, the first request would remove what is written after the answer to the second.
func TestDeleteSendsOneRequest(t *testing.T) {
	s := gcstest.Shared(t)
	name := newName(t, s)
	proxy := httpfault.New(t, s.Address())
	client := newClient(t, proxy.Address)
	client.SetRetry(storage.WithPolicy(storage.RetryAlways))
	b := gcsbucket.New(client, name)
	for _, c := range []struct {
		name  string
		fault httpfault.Fault
		want  string
	}{
		{"502 though applied", gatewayError, "open"}, {"busy", answer(503), "open"}, {"reply lost", httpfault.LoseReply, "open"}, {"rights", answer(403), "refused"},
	} {
		mustPut(t, b, c.name, "x", "")
		var n atomic.Int64
		proxy.Set(httpfault.Only(func(r *http.Request) bool { return r.Method == http.MethodDelete && n.Add(1) == 1 }, c.fault))
		err := b.Delete(t.Context(), c.name)
		proxy.Set(nil)
		if kind(err) != c.want || n.Load() != 1 {
			t.Errorf("%s: %d deletions, and %v; want one, which is %s", c.name, n.Load(), err, c.want)
		}
	}
}
