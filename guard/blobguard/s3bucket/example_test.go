//go:build unix

package s3bucket_test

import (
	"context"
	"log"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
)

// The client is your own, configured as usual, for instance by the SDK's config.LoadDefaultConfig.
func ExampleNew() {
	var client *s3.Client
	ctx := context.Background()
	g, err := blobguard.New(ctx, s3bucket.New(client, "ledger"), &blobguard.Options{Codec: blobguard.JSON(), Prefix: "production/"})
	if err != nil {
		log.Fatal(err)
	}
	if err := g.Put(ctx, "accounts/alice.json", 7, strings.NewReader(`{"balance": 90}`)); err != nil {
		log.Fatal(err)
	}
}
