//go:build unix

package azbucket_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/fencedlock/fencedlock/internal/aztest"
)

var containers atomic.Int64

// newContainer creates an empty container for one test and returns its name. It goes away with the server.
func newContainer(t testing.TB, s *aztest.Server) string {
	t.Helper()
	name := fmt.Sprintf("container-%d", containers.Add(1))
	if _, err := newClient(t, s.Address(), name, nil).Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return name
}

// newClient returns a client of a container, for a server or a proxy at host:port. Its connections are closed at the test's
// end.
func newClient(t testing.TB, address, name string, o *container.ClientOptions) *container.Client {
	t.Helper()
	var options container.ClientOptions
	if o != nil {
		options = *o
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	options.Transport = &http.Client{Transport: transport}
	credential, err := container.NewSharedKeyCredential(aztest.Account, aztest.Key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(aztest.URL(address, name), credential, &options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
