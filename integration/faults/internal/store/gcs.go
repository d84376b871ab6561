//go:build unix

package store

import (
	"context"
	"errors"
	"net/http"

	"cloud.google.com/go/storage"
	"google.golang.org/api/option"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/internal/gcstest"
)

// The stamp is beside the content, which S3 has no room for.
var gcsKind = blobKind("gcs", blobguard.Verbatim(), openGCS)

func openGCS(ctx context.Context, p Places, transport *http.Transport) (*objects, error) {
	client, err := storage.NewClient(context.WithoutCancel(ctx), option.WithEndpoint(gcstest.Endpoint(p.GCS)),
		option.WithHTTPClient(&http.Client{Transport: transport}), option.WithoutAuthentication())
	if err != nil {
		return nil, err
	}
	bucket := client.Bucket(bucketName)
	return &objects{
		bucket: gcsbucket.New(client, bucketName),
		create: func(ctx context.Context) error { return bucket.Create(ctx, "project", nil) },
		put: func(ctx context.Context, key string, text []byte) error {
			w := bucket.Object(key).Retryer(storage.WithPolicy(storage.RetryNever)).NewWriter(ctx)
			w.ChunkSize = 0 // one request
			_, err := w.Write(text)
			return errors.Join(err, w.Close())
		},
		close: client.Close,
	}, nil
}
