package buckettest

import (
	"context"
	"errors"
	"strings"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// checkStamp: a stamp comes with its bytes and goes with them.
func checkStamp(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	sb, ok := b.(blobguard.StampBucket)
	if !ok {
		return nil
	}
	stamped := func(content, stamp string, expect blobguard.Version) blobguard.Version {
		v, err := sb.PutStamped(ctx, "stamp", strings.NewReader(content), stamp, expect)
		if err != nil {
			f.add("PutStamped(%q, %q, %q): %w", content, stamp, expect, err)
		}
		return v
	}
	has := func(stamp, content string, v blobguard.Version) {
		for _, r := range [][2]int64{{0, -1}, {0, 0}, {1, 2}, {-1, -1}} {
			o, err := b.Get(ctx, "stamp", r[0], r[1])
			if err != nil {
				f.add("Get: %w", err)
				continue
			}
			if err := o.Body.Close(); err != nil || o.Stamp != stamp || o.Version != v {
				f.add("Get(%d, %d) has stamp %q, version %q, %v; want %q, %q", r[0], r[1], o.Stamp, o.Version, err, stamp, v)
			}
		}
		f.holds(ctx, b, "stamp", content, v)
	}
	long := strings.Repeat(" ~", 255) + "x!" // 512 bytes, with blanks that a header would lose at its ends only
	long = "." + long[1:]
	v1 := stamped("same", "one", "")
	has("one", "same", v1)
	if _, err := sb.PutStamped(ctx, "stamp", strings.NewReader("x"), "late", ""); !errors.Is(err, blobguard.ErrConflict) {
		f.add("PutStamped where there is an object: %v; want ErrConflict", err)
	}
	v2 := stamped("same", long, v1)
	has(long, "same", v2)
	if b.UniqueVersions() {
		if v1 == v2 {
			f.add("the same bytes with another stamp have the same version %q", v1)
		}
		if _, err := sb.PutStamped(ctx, "stamp", strings.NewReader("same"), "one", v1); !errors.Is(err, blobguard.ErrConflict) {
			f.add("PutStamped with a former version: %v; want ErrConflict", err)
		}
	}
	has(long, "same", v2)
	has("", "plain", f.put(ctx, b, "stamp", "plain", v2))
	return f.err()
}
