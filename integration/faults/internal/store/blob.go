//go:build unix

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// bucketName is that of the one bucket in each object store.
const bucketName = "faults"

// objects is an object store, as its own client sees it.
type objects struct {
	bucket blobguard.Bucket
	create func(ctx context.Context) error                          // makes the bucket
	put    func(ctx context.Context, key string, text []byte) error // past the guard
	close  func() error
}

// blobKind is an object store that connects by open, under a guard with that codec.
func blobKind(name string, codec blobguard.Codec, open func(context.Context, Places, *http.Transport) (*objects, error)) Kind {
	connect := func(ctx context.Context, p Places) (*blobStore, error) {
		s := &blobStore{transport: &http.Transport{ExpectContinueTimeout: time.Second, ResponseHeaderTimeout: 3 * time.Second}}
		s.transport.DialContext = s.sent.dial
		var err error
		if s.objects, err = open(ctx, p, s.transport); err != nil {
			return nil, err
		}
		return s, nil
	}
	return Kind{
		Name: name,
		Init: func(ctx context.Context, p Places, resource string) (err error) {
			s, err := connect(ctx, p)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			if err := s.create(ctx); err != nil {
				return err
			}
			text, err := json.Marshal(history.NewDoc())
			if err != nil {
				return err
			}
			return s.put(ctx, resource, text)
		},
		Open: func(ctx context.Context, p Places, guarded bool) (Store, error) {
			s, err := connect(ctx, p)
			if err != nil || !guarded {
				return s, err
			}
			// The first object has no stamp, as one that was there before the guard was.
			if s.g, err = blobguard.New(ctx, s.bucket, &blobguard.Options{Codec: codec, Adopt: true}); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return s, nil
		},
	}
}

// blobStore keeps a Doc as one object.
type blobStore struct {
	*objects
	transport *http.Transport
	sent      halfway
	g         *blobguard.Guard // nil: unguarded
}

func (s *blobStore) Seal(ctx context.Context, resource string, tok guard.Token) error {
	if s.g == nil {
		return nil
	}
	return s.g.Seal(ctx, resource, tok)
}

func (s *blobStore) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if s.g == nil {
		return 0, nil
	}
	return s.g.Highest(ctx, resource)
}

func (s *blobStore) Read(ctx context.Context, resource string) (d history.Doc, err error) {
	body, err := s.body(ctx, resource)
	if err != nil {
		return d, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}

func (s *blobStore) body(ctx context.Context, resource string) (io.ReadCloser, error) {
	if s.g == nil {
		o, err := s.bucket.Get(ctx, resource, 0, -1)
		return o.Body, err
	}
	v, err := s.g.Get(ctx, resource)
	return v.Body, err
}

func (s *blobStore) Journal(context.Context, string) ([]string, error) { return nil, nil }

func (s *blobStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	text, err := json.Marshal(w.Doc)
	if err != nil {
		return err
	}
	defer s.sent.expect(w)()
	if s.g == nil {
		return unguarded(s.put(ctx, resource, text))
	}
	return s.g.Put(ctx, resource, tok, bytes.NewReader(text))
}

func (s *blobStore) Close() error {
	err := s.close()
	s.transport.CloseIdleConnections()
	return err
}
