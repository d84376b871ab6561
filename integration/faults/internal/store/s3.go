//go:build unix

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

var s3Kind = Kind{
	Name: "s3",
	Init: func(ctx context.Context, p Places, resource string) (err error) {
		s, err := openS3(ctx, p, false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return s.Write(ctx, resource, 0, Write{Doc: history.NewDoc(), Inside: func() {}})
	},
	Open: func(ctx context.Context, p Places, guarded bool) (Store, error) { return openS3(ctx, p, guarded) },
}

func openS3(ctx context.Context, p Places, guarded bool) (Store, error) {
	transport := &http.Transport{ExpectContinueTimeout: time.Second, ResponseHeaderTimeout: 3 * time.Second}
	client := s3test.Client(p.S3, transport)
	s := &s3Store{transport: transport, client: client, bucket: p.Bucket, guarded: guarded}
	if !guarded {
		return s, nil
	}
	// The first object has no stamp, as one that was there before the guard was.
	var err error
	if s.g, err = blobguard.New(ctx, s3bucket.New(client, p.Bucket), &blobguard.Options{Codec: blobguard.JSON(), Adopt: true}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

type s3Store struct {
	transport *http.Transport
	client    *s3.Client
	bucket    string
	g         *blobguard.Guard // nil: unguarded
	guarded   bool
}

func (s *s3Store) Seal(ctx context.Context, resource string, tok guard.Token) error {
	if !s.guarded {
		return nil
	}
	return s.g.Seal(ctx, resource, tok)
}

func (s *s3Store) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if !s.guarded {
		return 0, nil
	}
	return s.g.Highest(ctx, resource)
}

func (s *s3Store) Read(ctx context.Context, resource string) (d history.Doc, err error) {
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

func (s *s3Store) body(ctx context.Context, resource string) (io.ReadCloser, error) {
	if s.guarded {
		v, err := s.g.Get(ctx, resource)
		return v.Body, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &resource})
	if err != nil {
		return nil, err
	}
	return out.Body, nil
}

func (s *s3Store) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	text, err := json.Marshal(w.Doc)
	if err != nil {
		return err
	}
	w.Inside()
	if s.guarded {
		return s.g.Put(ctx, resource, tok, strings.NewReader(string(text)))
	}
	_, err = s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.bucket, Key: &resource, Body: bytes.NewReader(text)})
	return unguarded(err)
}

func (s *s3Store) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}
