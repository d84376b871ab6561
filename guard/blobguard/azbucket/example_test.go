//go:build unix

package azbucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/internal/aztest"
)

// A report is kept as it is, with its mark in the metadata, and a late writer is refused.
func Example() {
	ctx := context.Background()
	client, err := container.NewClientFromConnectionString(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), "reports", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := publish(ctx, client, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func publish(ctx context.Context, client *container.Client, out io.Writer) error {
	g, err := blobguard.New(ctx, azbucket.New(client), &blobguard.Options{Codec: blobguard.Verbatim()})
	if err != nil {
		return err
	}
	// The tokens come from lock.Held.Token.
	if err := g.Seal(ctx, "daily.pdf", 9); err != nil { // before the new holder's first read
		return err
	}
	if err := g.Put(ctx, "daily.pdf", 9, strings.NewReader("the new holder's report")); err != nil {
		return err
	}
	err = g.Put(ctx, "daily.pdf", 7, strings.NewReader("the former holder's report"))
	fmt.Fprintln(out, errors.Is(err, guard.ErrStale), err)
	return nil
}

func TestExample(t *testing.T) {
	s := aztest.Shared(t)
	var out strings.Builder
	if err := publish(t.Context(), newClient(t, s.Address(), newContainer(t, s), nil), &out); err != nil {
		t.Fatal(err)
	}
	if want := "true guard: stale token 7 for \"daily.pdf\": 9 has been seen, so a newer holder is at work; stop writing\n"; out.String() != want {
		t.Errorf("got %q; want %q", &out, want)
	}
}
