//go:build unix

package gcsbucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"testing"

	"cloud.google.com/go/storage"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/gcsbucket"
	"github.com/fencedlock/fencedlock/internal/gcstest"
)

// A report is kept as it is, with its mark in the metadata, and a late writer is refused.
func Example() {
	ctx := context.Background()
	client, err := storage.NewClient(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := publish(ctx, client, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func publish(ctx context.Context, client *storage.Client, out io.Writer) error {
	g, err := blobguard.New(ctx, gcsbucket.New(client, "reports"), &blobguard.Options{Codec: blobguard.Verbatim()})
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
	client := newClient(t, gcstest.Shared(t).Address())
	if err := client.Bucket("reports").Create(t.Context(), "project", nil); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := publish(t.Context(), client, &out); err != nil {
		t.Fatal(err)
	}
	if want := "true guard: stale token 7 for \"daily.pdf\": 9 has been seen, so a newer holder is at work; stop writing\n"; out.String() != want {
		t.Errorf("got %q; want %q", &out, want)
	}
}
