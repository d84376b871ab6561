//go:build unix

package gcsbucket_test

import (
	"testing"

	"cloud.google.com/go/storage"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/buckettest"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/internal/gcstest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gcstest.Main(m)) }

func TestBucketPassesTheSuite(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) blobguard.Bucket {
		s := gcstest.Shared(t)
		return gcsbucket.New(newClient(t, s.Address()), newName(t, s))
	})
}

// The other of the two interfaces that a client may read through.
func TestBucketPassesTheSuiteOverTheJSONInterface(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) blobguard.Bucket {
		s := gcstest.Shared(t)
		proxy := httpfault.New(t, s.Address())
		proxy.Set(withoutMetadata)
		return gcsbucket.New(newClient(t, proxy.Address, storage.WithJSONReads()), newName(t, s))
	})
}
