//go:build unix

package gcsbucket_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"

	"github.com/fencedlock/fencedlock/internal/gcstest"
)

var buckets atomic.Int64

// newName creates an empty bucket for one test and returns its name. It goes away with the server.
func newName(t testing.TB, s *gcstest.Server) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", buckets.Add(1))
	if err := newClient(t, s.Address()).Bucket(name).Create(t.Context(), "project", nil); err != nil {
		t.Fatal(err)
	}
	return name
}

// newClient returns a client for a server or a proxy at host:port. It is closed at the test's end.
func newClient(t testing.TB, address string, options ...option.ClientOption) *storage.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	options = append([]option.ClientOption{
		option.WithEndpoint(gcstest.Endpoint(address)),
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithoutAuthentication(), // else it looks on the machine and in the network for credentials
	}, options...)
	c, err := storage.NewClient(context.WithoutCancel(t.Context()), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	return c
}
