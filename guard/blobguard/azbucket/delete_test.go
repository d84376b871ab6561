//go:build unix

package azbucket_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/internal/aztest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// Were a deletion sent again in secret, the first request would remove what is written after the answer to the second.
func TestDeleteSendsOneRequest(t *testing.T) {
	s := aztest.Shared(t)
	name := newContainer(t, s)
	proxy := httpfault.New(t, s.Address())
	b := azbucket.New(newClient(t, proxy.Address, name, &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: 5, RetryDelay: time.Millisecond},
	}}))
	for _, c := range []struct {
		name  string
		fault httpfault.Fault
		want  string
	}{
		{"502 though applied", gatewayError, "open"}, {"busy", answer(503, bloberror.ServerBusy), "open"}, {"reply lost", httpfault.LoseReply, "open"},
		{"rights", answer(403, bloberror.AuthorizationPermissionMismatch), "refused"}, {"no container", answer(404, bloberror.ContainerNotFound), "refused"},
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
