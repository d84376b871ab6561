package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/fencedlock/fencedlock/guard/blobguard"
)

// check is one property. It returns what it found wrong; an error instead of a testing.T lets the suite be tested.
type check struct {
	name string
	run  func(ctx context.Context, b blobguard.Bucket) error
}

var checks = []check{
	{"Absent", checkAbsent},
	{"Content", checkContent},
	{"Range", checkRange},
	{"Create", checkCreate},
	{"Replace", checkReplace},
	{"Vanished", checkVanished},
	{"Deleted", checkDeleted},
	{"Race", checkRace},
	{"SameBytes", checkSameBytes},
	{"Keys", checkKeys},
	{"List", checkList},
	{"Stamp", checkStamp},
	{"Body", checkBody},
	{"Cancelled", checkCancelled},
}

// findings collects what is wrong.
type findings []error

func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f findings) err() error { return errors.Join(f...) }

// put has to succeed.
func (f *findings) put(ctx context.Context, b blobguard.Bucket, key, content string, expect blobguard.Version) blobguard.Version {
	v, err := b.Put(ctx, key, strings.NewReader(content), expect)
	if err != nil || v == "" {
		f.add("Put(%.20q, %.20q, %q) = %q, %v; want a version", key, content, expect, v, err)
	}
	return v
}

// conflicts is a Put that has to be refused for the version.
func (f *findings) conflicts(ctx context.Context, b blobguard.Bucket, key, content string, expect blobguard.Version) {
	v, err := b.Put(ctx, key, strings.NewReader(content), expect)
	if !errors.Is(err, blobguard.ErrConflict) || errors.Is(err, blobguard.ErrRefused) {
		f.add("Put(%.20q, %.20q, %q) = %q, %v; want ErrConflict", key, content, expect, v, err)
	}
}

// get reads a range, and checks what has to agree.
func (f *findings) get(ctx context.Context, b blobguard.Bucket, key string, offset, length int64, want string, size int64, v blobguard.Version) blobguard.Object {
	o, err := b.Get(ctx, key, offset, length)
	if err != nil {
		f.add("Get(%.20q, %d, %d): %w", key, offset, length, err)
		return o
	}
	got, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil || string(got) != want {
		f.add("Get(%.20q, %d, %d): body %.40q of %d bytes, %v; want %.40q of %d", key, offset, length, got, len(got), err, want, len(want))
	}
	if o.Size != size || o.Version != v {
		f.add("Get(%.20q, %d, %d): size %d, version %q; want %d, %q as Put returned", key, offset, length, o.Size, o.Version, size, v)
	}
	return o
}

// holds checks the whole content.
func (f *findings) holds(ctx context.Context, b blobguard.Bucket, key, want string, v blobguard.Version) blobguard.Object {
	return f.get(ctx, b, key, 0, -1, want, int64(len(want)), v)
}

// absent checks that there is no object, in each way to ask.
func (f *findings) absent(ctx context.Context, b blobguard.Bucket, key string) {
	for _, r := range [][2]int64{{0, -1}, {0, 0}, {0, 10}, {5, -1}, {-10, -1}} {
		o, err := b.Get(ctx, key, r[0], r[1])
		if err == nil {
			err = o.Body.Close()
		}
		if !errors.Is(err, blobguard.ErrNotExist) {
			f.add("Get(%.20q, %d, %d) of an absent key: %v; want ErrNotExist", key, r[0], r[1], err)
		}
	}
}

func checkAbsent(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	f.absent(ctx, b, "absent")
	if err := b.Delete(ctx, "absent"); err != nil {
		f.add("Delete of an absent key: %w; want nil", err)
	}
	f.conflicts(ctx, b, "absent", "x", f.elsewhere(ctx, b))
	f.absent(ctx, b, "absent")
	return f.err()
}

// elsewhere is a version that another key has, so it is well formed.
func (f *findings) elsewhere(ctx context.Context, b blobguard.Bucket) blobguard.Version {
	return f.put(ctx, b, "elsewhere", "something else", "")
}

func checkContent(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	for i, c := range []string{"", "a", "\x00\xff\r\n", "ünï", strings.Repeat("x", 5<<20+1), string(bytes.Repeat([]byte{0, 1, 2, 255}, 1<<18))} {
		key := fmt.Sprintf("content %d", i)
		f.holds(ctx, b, key, c, f.put(ctx, b, key, c, ""))
	}
	return f.err()
}

func checkRange(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	const c = "0123456789"
	v := f.put(ctx, b, "range", c, "")
	for _, r := range []struct {
		offset, length int64
		want           string
	}{
		{0, -1, c}, {0, 10, c}, {0, 99, c}, {0, 1, "0"}, {3, 4, "3456"}, {3, -1, "3456789"}, {9, 1, "9"}, {8, 5, "89"},
		{0, 0, ""}, {4, 0, ""}, {10, -1, ""}, {10, 1, ""}, {99, 5, ""}, {-1, -1, "9"}, {-4, -1, "6789"}, {-10, -1, c}, {-99, -1, c},
	} {
		f.get(ctx, b, "range", r.offset, r.length, r.want, 10, v)
	}
	v = f.put(ctx, b, "range, empty", "", "")
	for _, r := range [][2]int64{{0, -1}, {0, 0}, {0, 5}, {3, -1}, {-5, -1}} {
		f.get(ctx, b, "range, empty", r[0], r[1], "", 0, v)
	}
	return f.err()
}

func checkCreate(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	v := f.put(ctx, b, "create", "first", "")
	f.conflicts(ctx, b, "create", "second", "")
	f.conflicts(ctx, b, "create", "", "")
	f.conflicts(ctx, b, "create", strings.Repeat("x", 6<<20), "") // where clients change to another kind of upload
	f.holds(ctx, b, "create", "first", v)
	v = f.put(ctx, b, "create, empty", "", "")
	f.conflicts(ctx, b, "create, empty", "second", "")
	f.holds(ctx, b, "create, empty", "", v)
	return f.err()
}

func checkReplace(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	v1 := f.put(ctx, b, "replace", "one", "")
	v2 := f.put(ctx, b, "replace", "two", v1)
	if v1 == v2 {
		f.add("another content has the same version %q", v1)
	}
	for _, late := range []string{"late", "one", "", strings.Repeat("x", 6<<20)} {
		f.conflicts(ctx, b, "replace", late, v1)
	}
	f.conflicts(ctx, b, "replace", "late", f.elsewhere(ctx, b))
	f.holds(ctx, b, "replace", "two", v2)
	big := strings.Repeat("y", 6<<20)
	v3 := f.put(ctx, b, "replace", big, v2)
	f.conflicts(ctx, b, "replace", "late", v2)
	f.holds(ctx, b, "replace", big, v3)
	f.holds(ctx, b, "replace", "", f.put(ctx, b, "replace", "", v3))
	return f.err()
}

// checkVanished: what is gone is not made anew by a write that wanted to replace it.
func checkVanished(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	v := f.put(ctx, b, "vanished", "one", "")
	if err := b.Delete(ctx, "vanished"); err != nil {
		f.add("Delete: %w", err)
	}
	f.conflicts(ctx, b, "vanished", "two", v)
	f.absent(ctx, b, "vanished")
	return f.err()
}

func checkDeleted(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	f.put(ctx, b, "deleted", "one", "")
	for range 2 {
		if err := b.Delete(ctx, "deleted"); err != nil {
			f.add("Delete: %w; want nil", err)
		}
		f.absent(ctx, b, "deleted")
	}
	f.holds(ctx, b, "deleted", "two", f.put(ctx, b, "deleted", "two", ""))
	return f.err()
}

// checkRace: of many writes on one condition, one is applied.
func checkRace(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	const writers, rounds = 8, 10
	expect := blobguard.Version("")
	for round := range rounds {
		var wg sync.WaitGroup
		versions, errs := make([]blobguard.Version, writers), make([]error, writers)
		start := make(chan struct{})
		for w := range writers {
			wg.Go(func() {
				<-start
				// One that is answered "try again" has not had its turn.
				versions[w], errs[w] = b.Put(ctx, "race", strings.NewReader(fmt.Sprintf("round %d, writer %d", round, w)), expect)
			})
		}
		close(start)
		wg.Wait()
		won := -1
		for w, err := range errs {
			switch {
			case err == nil && won >= 0:
				f.add("round %d: writers %d and %d both replaced version %q", round, won, w, expect)
			case err == nil:
				won = w
			case !errors.Is(err, blobguard.ErrConflict):
				f.add("round %d: %w; want ErrConflict", round, err)
			}
		}
		if won < 0 {
			continue // all met each other
		}
		expect = versions[won]
		f.holds(ctx, b, "race", fmt.Sprintf("round %d, writer %d", round, won), expect)
	}
	if expect == "" {
		f.add("no write of %d rounds was applied", rounds)
	}
	return f.err()
}

func checkSameBytes(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	v1 := f.put(ctx, b, "same bytes", "same", "")
	v2 := f.put(ctx, b, "same bytes", "same", v1)
	if b.UniqueVersions() && v1 == v2 {
		f.add("the same bytes again have the same version %q; UniqueVersions must be false", v1)
	}
	if v1 != v2 {
		f.conflicts(ctx, b, "same bytes", "same", v1)
	}
	f.holds(ctx, b, "same bytes", "same", v2)
	return f.err()
}

// checkKeys: keys of every kind that stores allow are kept apart.
func checkKeys(ctx context.Context, b blobguard.Bucket) error {
	var f findings
	keys := []string{"k/plain", "k/Plain", "k/a b", "k/a+b", "k/a%20b", "k/a%2Fb", "k/a?b=c&d", "k/a#b", "k/ü", "k/u\u0308", "k/鍵🔒", "k/a'b\"", "k/a<b>", "k/~(*)!@$=:;,", "k/" + strings.Repeat("x", 200)}
	versions := make([]blobguard.Version, len(keys))
	for i, k := range keys {
		versions[i] = f.put(ctx, b, k, "at "+k, "")
	}
	for i, k := range keys {
		f.holds(ctx, b, k, "at "+k, versions[i])
	}
	f.lists(ctx, b, "k/", keys...)
	for _, k := range keys {
		if err := b.Delete(ctx, k); err != nil {
			f.add("Delete(%.20q): %w", k, err)
		}
	}
	f.lists(ctx, b, "k/")
	return f.err()
}

func (f *findings) lists(ctx context.Context, b blobguard.Bucket, prefix string, want ...string) {
	var got []string
	for key, err := range b.List(ctx, prefix) {
		if err != nil {
			f.add("List(%q): %w", prefix, err)
			return
		}
		got = append(got, key)
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		f.add("List(%q) has %d keys %.200q; want %d keys %.200q", prefix, len(got), got, len(want), want)
	}
}
