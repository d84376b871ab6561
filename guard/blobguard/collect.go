package blobguard

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencedlock/fencedlock/guard"
)

// Collect removes data of resource that nobody can read any more, and returns how many objects it was: it seals resource with
// tok, as [Guard.Seal] does, and deletes what was written with lower tokens but for what the sealed object names. No holder
// with a lower token can make the object name any of it again. Data of tok itself stays, also what the holder has replaced,
// until a later holder collects; so does that of later holders.
//
// A reader that opens data at that moment reads the object again and gets what is there now; one that is in the middle of
// a body may fail, as the store has it.
//
// Only [Pointer] has such data; with another codec Collect is an error. The errors of its Seal are those of [Guard.Put]. When a
// later step fails, the resource is sealed, and what was not deleted stays for the next time.
func (g *Guard) Collect(ctx context.Context, resource string, tok guard.Token) (deleted int, err error) {
	if err := g.made(); err != nil {
		return 0, err
	}
	err = g.outcome(ctx, resource, tok, func() error {
		deleted, err = g.collect(ctx, resource, tok)
		return err
	})
	return deleted, err
}

func (g *Guard) collect(ctx context.Context, resource string, tok guard.Token) (deleted int, err error) {
	if g.codec != (pointer{}) {
		return 0, fmt.Errorf("blobguard: Collect: %s has no data beside the object; only %s has", g.codec, pointer{})
	}
	if _, err := g.seal(ctx, resource, tok); err != nil {
		return 0, err
	}
	fail := func(err error) (int, error) {
		return deleted, fmt.Errorf("blobguard: Collect %q: sealed, and %d objects deleted: %w", resource, deleted, err)
	}
	key, err := g.key(resource)
	if err != nil {
		return fail(err)
	}
	// Read after the seal: from here on only this holder and later ones write, and their data has tokens of their own.
	r, err := g.look(ctx, key, 0)
	if err != nil {
		return fail(err)
	}
	inUse := ""
	if !r.absent() {
		d, err := r.document(key)
		if err != nil {
			return fail(err)
		}
		inUse = d.Data
	}
	for data, err := range g.bucket.List(ctx, dataPrefix(key)) {
		if err != nil {
			return fail(err)
		}
		t, ok := tokenOf(strings.TrimPrefix(data, dataPrefix(key)))
		if !ok || t >= tok || data == inUse {
			continue
		}
		if err := discard(ctx, g.bucket, data); err != nil {
			return fail(err)
		}
		deleted++
	}
	return deleted, nil
}

// tokenOf reads the end of a key of data. What has another form was not written by a guard, and stays.
func tokenOf(name string) (guard.Token, bool) {
	tok, n, _ := strings.Cut(name, "-")
	t, err := guard.ParseToken(tok)
	_, ok := parseNonce(n)
	return t, err == nil && ok
}
