//go:build unix

package blobguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
)

// The holder with token 7 is paused; its successor with token 9 writes first. The late write is refused. A program would have
// s3bucket.New(client, "ledger") for the bucket.
func ExampleGuard_Put() {
	ctx := context.Background()
	g, err := blobguard.New(ctx, membucket.New(false), &blobguard.Options{Codec: blobguard.JSON()})
	if err != nil {
		log.Fatal(err)
	}
	write := func(tok guard.Token, document string) error {
		return g.Put(ctx, "accounts/alice.json", tok, strings.NewReader(document))
	}
	fmt.Println(write(9, `{"balance": 90}`))
	err = write(7, `{"balance": 100}`)
	fmt.Println(errors.Is(err, guard.ErrStale), err)

	v, err := g.Get(ctx, "accounts/alice.json")
	if err != nil {
		log.Fatal(err)
	}
	defer v.Body.Close()
	document, err := io.ReadAll(v.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(document), v.Token)
	// Output:
	// <nil>
	// true guard: stale token 7 for "accounts/alice.json": 9 has been seen, so a newer holder is at work; stop writing
	// {"balance": 90} 9
}

// A new holder seals before it reads, so that what it reads stays as it is.
func ExampleGuard_Seal() {
	ctx := context.Background()
	g, err := blobguard.New(ctx, membucket.New(false), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Seal(ctx, "report.pdf", 9))
	_, err = g.Get(ctx, "report.pdf")
	fmt.Println(errors.Is(err, blobguard.ErrNotExist), err)
	fmt.Println(errors.Is(g.Put(ctx, "report.pdf", 7, strings.NewReader("late")), guard.ErrStale))
	// Output:
	// <nil>
	// true blobguard: "report.pdf" does not exist; its mark is 9
	// true
}

// A deletion leaves the mark, so that an earlier holder cannot bring the object back.
func ExampleGuard_Delete() {
	ctx := context.Background()
	g, err := blobguard.New(ctx, membucket.New(false), &blobguard.Options{Codec: blobguard.Comment("# ")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(g.Put(ctx, "app.conf", 7, strings.NewReader("port = 80\n")))
	fmt.Println(g.Delete(ctx, "app.conf", 9))
	fmt.Println(errors.Is(g.Put(ctx, "app.conf", 7, strings.NewReader("port = 81\n")), guard.ErrStale))
	fmt.Println(g.Highest(ctx, "app.conf"))
	// Output:
	// <nil>
	// <nil>
	// true
	// 9 <nil>
}
