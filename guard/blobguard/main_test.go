//go:build unix

package blobguard_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// roles are what this program does as a child of its own tests.
var roles = map[string]child.Role{}

func TestMain(m *testing.M) {
	child.Main(roles)
	goleak.VerifyTestMain(s3test.Main(m))
}

// newGuard returns a guard, whose probe has passed.
func newGuard(t testing.TB, b blobguard.Bucket, o *blobguard.Options) *blobguard.Guard {
	t.Helper()
	g, err := blobguard.New(t.Context(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// newBucket returns an empty bucket on the shared server, and its name.
func newBucket(t testing.TB) (*s3bucket.Bucket, string) {
	t.Helper()
	s := s3test.Shared(t)
	name := s.Bucket(t)
	return s3bucket.New(s3test.NewClient(t, s.Address()), name), name
}

// throughProxy returns the bucket of that name behind a proxy.
func throughProxy(t testing.TB, name string) (*s3test.Proxy, *s3bucket.Bucket) {
	t.Helper()
	p := s3test.NewProxy(t, s3test.Shared(t).Address())
	return p, s3bucket.New(s3test.NewClient(t, p.Address()), name)
}

// codecs are those that S3 can have.
var codecs = []blobguard.Codec{blobguard.Comment("# "), blobguard.JSON(), blobguard.Pointer()}

func onEach(t *testing.T, run func(t *testing.T, c blobguard.Codec)) {
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) { run(t, c) })
	}
}

// hashed is a key for any resource, also for those that a file system cannot have.
func hashed(resource string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(resource))) }

func put(t testing.TB, g *blobguard.Guard, resource string, tok guard.Token, content string) error {
	t.Helper()
	return g.Put(t.Context(), resource, tok, strings.NewReader(content))
}

func mustPut(t testing.TB, g *blobguard.Guard, resource string, tok guard.Token, content string) {
	t.Helper()
	if err := put(t, g, resource, tok, content); err != nil {
		t.Fatal(err)
	}
}

// alsoPut is mustPut on a goroutine that is not the test's own.
func alsoPut(t testing.TB, g *blobguard.Guard, resource string, tok guard.Token, content string) {
	if err := put(t, g, resource, tok, content); err != nil {
		t.Error(err)
	}
}

// get returns the content and the mark; "" and the mark for none.
func get(t testing.TB, g *blobguard.Guard, resource string) (string, guard.Token, error) {
	t.Helper()
	v, err := g.Get(t.Context(), resource)
	var none *blobguard.NotExistError
	if errors.As(err, &none) {
		return "", none.Highest, nil
	}
	if err != nil {
		return "", 0, err
	}
	c, err := io.ReadAll(v.Body)
	return string(c), v.Token, errors.Join(err, v.Body.Close())
}

func holds(t testing.TB, g *blobguard.Guard, resource, content string, mark guard.Token) {
	t.Helper()
	c, m, err := get(t, g, resource)
	if err != nil || c != content || m != mark {
		t.Errorf("%q holds %.80q with mark %d, %v; want %.80q with %d", resource, c, int64(m), err, content, int64(mark))
	}
	if m, err := g.Highest(t.Context(), resource); err != nil || m != mark {
		t.Errorf("Highest(%q) = %d, %v; want %d", resource, int64(m), err, int64(mark))
	}
}

// raw is what other programs find.
func raw(t testing.TB, b blobguard.Bucket, key string) string {
	t.Helper()
	o, err := b.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(c)
}

func keys(t testing.TB, b blobguard.Bucket, prefix string) []string {
	t.Helper()
	var keys []string
	for k, err := range b.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	return keys
}
