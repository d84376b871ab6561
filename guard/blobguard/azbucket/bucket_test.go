//go:build unix

package azbucket_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/guard/blobguard/buckettest"
	"github.com/fencedlock/fencedlock/internal/aztest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(aztest.Main(m)) }

func TestBucketPassesTheSuite(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) blobguard.Bucket {
		s := aztest.Shared(t)
		return azbucket.New(newClient(t, s.Address(), newContainer(t, s), nil))
	})
}
