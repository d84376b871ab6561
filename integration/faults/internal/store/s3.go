//go:build unix

package store

import (
	"bytes"
	"context"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

var s3Kind = blobKind("s3", blobguard.JSON(), openS3)

func openS3(_ context.Context, p Places, transport *http.Transport) (*objects, error) {
	client, bucket := s3test.Client(p.S3, transport), aws.String(bucketName)
	return &objects{
		bucket: s3bucket.New(client, bucketName),
		create: func(ctx context.Context) error {
			_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
			return err
		},
		put: func(ctx context.Context, key string, text []byte) error {
			_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: bytes.NewReader(text)})
			return err
		},
		close: func() error { return nil },
	}, nil
}
