//go:build unix

package s3bucket_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/buckettest"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(s3test.Main(m)) }

func TestBucketPassesTheSuite(t *testing.T) {
	buckettest.Run(t, func(t *testing.T) blobguard.Bucket {
		s := s3test.Shared(t)
		return s3bucket.New(s3test.NewClient(t, s.Address()), s.Bucket(t))
	})
}
