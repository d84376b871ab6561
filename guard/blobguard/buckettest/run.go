// Package buckettest is the suite that every [blobguard.Bucket] passes: it finds the bucket whose conditions are not
// conditions, that takes one answer for another, or that reads another range than it was asked for. It is for the buckets
// of this project and for those that users write.
//
//	func TestBucket(t *testing.T) {
//		buckettest.Run(t, func(t *testing.T) blobguard.Bucket {
//			return newBucket(t) // empty, and cleaned up with t
//		})
//	}
package buckettest

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// limit bounds one check, so that a bucket that hangs is a failure with a name.
const limit = 2 * time.Minute

// Run runs the suite, each property as a sub-test with an empty bucket of its own from open, which registers its clean-up
// with t. What only a [blobguard.StampBucket] has, or one with unique versions, is checked where the bucket says so.
//
//   - Absent: what is not there is ErrNotExist in every range, and is not made by a write that wants to replace.
//   - Content: bytes of every kind, none and 5 MiB included, come back.
//   - Range: parts from the beginning, the middle and the end, and empty ones.
//   - Create: the second of two creates is a conflict, also with large bodies.
//   - Replace: a write on condition of a former version, or of another key's, is a conflict, also with large bodies.
//   - Vanished: a deleted object is not made anew by a write on condition of its version.
//   - Deleted: it is gone at once, and can be created again.
//   - Race: of several writes on one condition at once, at most one is applied.
//   - SameBytes: a bucket that promises unique versions has them.
//   - Keys: names with blanks, escapes and other scripts are kept apart.
//   - List: all keys of a prefix, beyond the first page of answers.
//   - Stamp: it comes and goes with the bytes.
//   - Body: it is read from its start; one that fails half-way writes nothing.
//   - Cancelled: a call whose context has ended changes nothing and returns the context's error.
func Run(t *testing.T, open func(t *testing.T) blobguard.Bucket) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := c.run(ctx, open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}
