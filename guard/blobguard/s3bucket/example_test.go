//go:build unix

package s3bucket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// The client is made from the SDK's options, or from what its module config loads: s3.NewFromConfig(cfg). For Amazon S3
// leave BaseEndpoint and UsePathStyle out; most other stores want both. The token is that of the held lock.
func ExampleNew() {
	ctx := context.Background()
	client := s3.New(s3.Options{
		Region:       "eu-central-1",
		BaseEndpoint: aws.String("https://s3.example.com"),
		UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}, nil
		}),
	})
	g, err := blobguard.New(ctx, s3bucket.New(client, "ledger"), &blobguard.Options{Codec: blobguard.JSON(), Prefix: "production/"})
	if err != nil {
		log.Fatal(err)
	}

	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"etcd.example.com:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.New(ctx, etcd, nil)
	if err != nil {
		log.Fatal(err)
	}
	err = lock.NewMutex(s, "accounts/alice.json").Do(ctx, func(ctx context.Context, h *lock.Held) error {
		// From here on nothing of an earlier holder lands any more, so what is read stays as it is.
		if err := g.Seal(ctx, h.Resource(), h.Token()); err != nil {
			return err
		}
		v, err := g.Get(ctx, h.Resource())
		if err != nil {
			return err
		}
		defer v.Body.Close()
		var account struct {
			Balance int `json:"balance"`
		}
		if err := json.NewDecoder(v.Body).Decode(&account); err != nil {
			return err
		}
		account.Balance -= 10
		document, err := json.Marshal(account)
		if err != nil {
			return err
		}
		return g.Put(ctx, h.Resource(), h.Token(), bytes.NewReader(document))
	})
	if err != nil {
		log.Fatal(err)
	}
}
