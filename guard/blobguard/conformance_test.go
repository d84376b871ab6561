//go:build unix

package blobguard_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// store is the suite's view of guards that take turns, as processes on several machines do: one alone would let its own
// writers wait for each other, and never meet a condition that does not hold.
func store(codec blobguard.Codec, guards ...*blobguard.Guard) guardtest.Store {
	var n atomic.Int64
	next := func() *blobguard.Guard { return guards[int(n.Add(1))%len(guards)] }
	return guardtest.Store{
		Sealer: turning{next},
		Write: func(ctx context.Context, resource string, tok guard.Token, value string) error {
			return next().Put(ctx, resource, tok, strings.NewReader(encode(codec, value)))
		},
		Read: func(ctx context.Context, resource string) (string, error) {
			v, err := next().Get(ctx, resource)
			if errors.Is(err, blobguard.ErrNotExist) {
				return "", nil
			}
			if err != nil {
				return "", err
			}
			c, err := io.ReadAll(v.Body)
			if err := errors.Join(err, v.Body.Close()); err != nil {
				return "", err
			}
			return decode(codec, string(c))
		},
		Delete: func(ctx context.Context, resource string, tok guard.Token) error {
			return next().Delete(ctx, resource, tok)
		},
		Busy: func(err error) bool { return errors.Is(err, blobguard.ErrBusy) },
	}
}

type turning struct{ next func() *blobguard.Guard }

func (t turning) Seal(ctx context.Context, resource string, tok guard.Token) error {
	return t.next().Seal(ctx, resource, tok)
}

func (t turning) Highest(ctx context.Context, resource string) (guard.Token, error) {
	return t.next().Highest(ctx, resource)
}

// encode makes a value fit the codec.
func encode(codec blobguard.Codec, value string) string {
	if codec != blobguard.JSON() {
		return value
	}
	b, _ := json.Marshal(map[string][]byte{"value": []byte(value)}) // base64: JSON's strings do not hold all bytes
	return string(b)
}

func decode(codec blobguard.Codec, content string) (string, error) {
	if codec != blobguard.JSON() {
		return content, nil
	}
	var v map[string][]byte
	err := json.Unmarshal([]byte(content), &v)
	return string(v["value"]), err
}

func TestS3PassesTheSuite(t *testing.T) {
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		own := s3test.Start(t) // one check kills it
		guardtest.Run(t, func(t *testing.T) guardtest.Store {
			name := own.Bucket(t)
			opts := &blobguard.Options{Codec: codec, Key: hashed, MaxRetries: 8}
			open := func(address string) *blobguard.Guard {
				return newGuard(t, s3bucket.New(s3test.NewClient(t, address), name), opts)
			}
			s := store(codec, open(own.Address()), open(own.Address()), open(own.Address()))
			proxy := s3test.NewProxy(t, own.Address())
			losing := func(f s3test.Fault, always bool) func(context.Context, string, guard.Token, string) error {
				return func(ctx context.Context, resource string, tok guard.Token, value string) error {
					lossy := open(proxy.Address()) // it remembers no version, so its first request is the one that counts
					hits := 0
					proxy.Set(func(r *http.Request) s3test.Fault {
						if r.Method != http.MethodPut || strings.Contains(r.URL.Path, ".data/") || hits > 0 && !always {
							return s3test.Pass
						}
						hits++
						return f
					})
					defer proxy.Set(nil)
					err := lossy.Put(ctx, resource, tok, strings.NewReader(encode(codec, value)))
					if hits == 0 {
						t.Error("no PUT came")
					}
					return err
				}
			}
			s.LoseReply, s.LoseRequest = losing(s3test.LoseReply, false), losing(s3test.LoseRequest, true)
			s.Restart = func(context.Context) error { return own.Restart() }
			return s
		})
	})
}

// A bucket with unique versions can have each codec; the real ones are in modules of their own.
func TestUniqueVersionsPassTheSuite(t *testing.T) {
	for _, codec := range append(codecs, blobguard.Verbatim()) {
		t.Run(codec.String(), func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				b := membucket.New(true)
				opts := &blobguard.Options{Codec: codec, Key: hashed}
				s := store(codec, newGuard(t, b, opts), newGuard(t, b, opts))
				s.Without = map[guardtest.Capability]string{
					guardtest.Restart:     "it lives in the process",
					guardtest.LoseReply:   "a call in the process has no reply to lose",
					guardtest.LoseRequest: "a call in the process has no request to lose",
				}
				return s
			})
		})
	}
}
