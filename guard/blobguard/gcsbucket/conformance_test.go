//go:build unix

package gcsbucket_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/internal/gcstest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// codecs are those that keep any bytes in one object each: the text's stamp is in the bytes, the other's beside them.
var codecs = []blobguard.Codec{blobguard.Comment("# "), blobguard.Verbatim()}

func newGuard(t testing.TB, b blobguard.Bucket, o *blobguard.Options) *blobguard.Guard {
	t.Helper()
	g, err := blobguard.New(t.Context(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// hashed is a key for any resource, also for names that URLs and files cannot have.
func hashed(resource string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(resource))) }

// guards take turns, as processes on several machines do.
type guards struct {
	all []*blobguard.Guard
	n   atomic.Int64
}

func (g *guards) next() *blobguard.Guard { return g.all[int(g.n.Add(1))%len(g.all)] }

func (g *guards) Seal(ctx context.Context, resource string, tok guard.Token) error {
	return g.next().Seal(ctx, resource, tok)
}

func (g *guards) Highest(ctx context.Context, resource string) (guard.Token, error) {
	return g.next().Highest(ctx, resource)
}

func (g *guards) read(ctx context.Context, resource string) (string, error) {
	v, err := g.next().Get(ctx, resource)
	if errors.Is(err, blobguard.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	c, err := io.ReadAll(v.Body)
	return string(c), errors.Join(err, v.Body.Close())
}

// What fake-gcs-server cannot show of Cloud Storage:
//   - generations that are unique by promise: its are the time in microseconds;
//   - a crash: it can end between writing an object and writing its generation, so it is stopped between two requests here;
//   - caches, and the limit of about one write a second of an object;
//   - a missing bucket: an upload makes it;
//   - conditions of deletions, which it ignores and the bucket does not use;
//   - 416 for the last bytes of an empty object, which is asked for behind the end instead.
func TestGuardPassesTheSuite(t *testing.T) {
	durable := sync.OnceValue(func() *gcstest.Server { return gcstest.Start(t, gcstest.Files) })
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				s := gcstest.Shared(t)
				if strings.HasSuffix(t.Name(), "/Restart") {
					s = durable()
				}
				return store(t, s, codec)
			})
		})
	}
}

func store(t *testing.T, s *gcstest.Server, codec blobguard.Codec) guardtest.Store {
	name := newName(t, s)
	open := func(address string) *blobguard.Guard {
		return newGuard(t, gcsbucket.New(newClient(t, address), name), &blobguard.Options{Codec: codec, Key: hashed, MaxRetries: 8})
	}
	g := &guards{all: []*blobguard.Guard{open(s.Address()), open(s.Address()), open(s.Address())}}
	proxy := httpfault.New(t, s.Address())
	lossy := open(proxy.Address)
	losing := func(fault httpfault.Fault, times int64) func(context.Context, string, guard.Token, string) error {
		return func(ctx context.Context, resource string, tok guard.Token, value string) error {
			var hits atomic.Int64
			proxy.Set(httpfault.Only(func(r *http.Request) bool { return gcstest.Upload(r) && hits.Add(1) <= times }, fault))
			defer proxy.Set(nil)
			err := lossy.Put(ctx, resource, tok, strings.NewReader(value))
			if hits.Load() == 0 {
				t.Error("no upload came")
			}
			return err
		}
	}
	return guardtest.Store{
		Sealer: g,
		Write: func(ctx context.Context, resource string, tok guard.Token, value string) error {
			return g.next().Put(ctx, resource, tok, strings.NewReader(value))
		},
		Read: g.read,
		Delete: func(ctx context.Context, resource string, tok guard.Token) error {
			return g.next().Delete(ctx, resource, tok)
		},
		Restart:     func(context.Context) error { return s.Restart() },
		LoseReply:   losing(httpfault.LoseReply, 1),
		LoseRequest: losing(httpfault.LoseRequest, 1<<60),
		Busy:        func(err error) bool { return errors.Is(err, blobguard.ErrBusy) },
	}
}
