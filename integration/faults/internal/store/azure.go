//go:build unix

package store

import (
	"bytes"
	"context"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/internal/aztest"
)

var azureKind = blobKind("azure", blobguard.Verbatim(), openAzure)

func openAzure(_ context.Context, p Places, transport *http.Transport) (*objects, error) {
	credential, err := container.NewSharedKeyCredential(aztest.Account, aztest.Key)
	if err != nil {
		return nil, err
	}
	client, err := container.NewClientWithSharedKeyCredential(aztest.URL(p.Azure, bucketName), credential,
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: transport}}})
	if err != nil {
		return nil, err
	}
	return &objects{
		bucket: azbucket.New(client),
		create: func(ctx context.Context) error {
			_, err := client.Create(ctx, nil)
			return err
		},
		put: func(ctx context.Context, key string, text []byte) error {
			_, err := client.NewBlockBlobClient(key).Upload(ctx, streaming.NopCloser(bytes.NewReader(text)), nil)
			return err
		},
		close: func() error { return nil },
	}, nil
}
