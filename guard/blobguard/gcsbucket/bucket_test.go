//go:build unix

package gcsbucket_test

import (
	"testing"

	"cloud.google.com/go/storage"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/buckettest"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket/internal/gcstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(gcstest.Main(m)) }

func TestBucketPassesTheSuite(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) blobguard.Bucket {
		s := gcstest.Shared(t)
		return gcsbucket.New(gcstest.NewClient(t, s.Address()), s.Bucket(t))
	})
}

func TestBucketPassesTheSuiteOverTheJSONInterface(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) blobguard.Bucket {
		s := gcstest.Shared(t)
		return gcsbucket.New(gcstest.NewClient(t, s.Address(), storage.WithJSONReads()), s.Bucket(t))
	})
}
