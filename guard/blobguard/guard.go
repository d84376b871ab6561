// Package blobguard guards objects in a blob store: each object carries the mark of its resource, written in one step with
// the content, on condition that the object is still the one whose mark was compared. A writer with a lower token is refused.
//
//	g, err := blobguard.New(ctx, s3bucket.New(client, "ledger"), &blobguard.Options{Codec: blobguard.JSON()})
//	err = g.Seal(ctx, "accounts/alice.json", tok)
//	err = g.Put(ctx, "accounts/alice.json", tok, strings.NewReader(`{"balance": 90}`))
//
// What it guarantees: once a Put, Delete or Seal with a token was acknowledged, no Put, Delete or Seal with a lower token
// for the same resource takes effect, whatever pauses, retries, late, repeated or lost messages there are. It rests on
// the store's conditional writes (If-Match and If-None-Match), on reads that see every write acknowledged before, and on a
// random number in every stamp, which makes every write's version differ from all others. [New] tries the store, and
// refuses one that ignores conditions.
//
// Where it ends: a program that writes an object without the guard is not refused, and destroys its mark, as [Guard.Purge] and
// lifecycle rules do; the guard refuses to go on when it meets that where it has seen a mark before. The mark is as durable as
// the object: a bucket that is restored from a copy has the marks of then, and a replica may lack the latest. A token in
// metadata beside the object would be no fence where the version is made from the content, as S3's ETag is: so the stamp is
// in the bytes, and [Codec] says how they stay useful to others.
//
// The condition is not waited for: of two writers that meet at one object, one is through, and the other looks again. One
// resource is written by one goroutine of a holder at a time; within a Guard they wait for each other.
//
// Buckets: s3bucket for Amazon S3 and what speaks its protocol, gcsbucket for Google Cloud Storage and azbucket for Azure Blob
// Storage, the last two in modules of their own; [Bucket] is the interface for your own.
package blobguard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/fencedlock/fencedlock/guard"
)

const (
	defaultRetries = 20
	// maxKey is what S3 and the others allow, less what the pointers' data add to it.
	maxKey = 900
)

// Options are the choices of a Guard. The zero value of each field is its default.
type Options struct {
	// Codec is how objects carry their stamp; default [Pointer], which suits every content on every store.
	Codec Codec

	// Prefix begins every key that the guard uses, those of its probe included; default none. It is valid UTF-8 without NUL,
	// at most 256 bytes, and has no part that ends in ".data".
	Prefix string

	// Key gives the key of a resource's object, behind Prefix; default is the resource's name itself. Two resources must never
	// have the same key, and one resource never two: so it depends on its argument alone. Keys are at most 900 bytes with
	// the prefix, valid UTF-8 without NUL; keys with empty parts, "." or ".." between slashes are refused, since clients, proxies
	// and servers take them for others, and so are keys with a part before the last that ends in ".data", since [Pointer] keeps
	// its data there. So a name like "/jobs/report" needs a Key; this one suits every name:
	//
	//	Key: func(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) },
	Key func(resource string) string

	// Adopt takes objects without a stamp for objects that were never marked, and the first write stamps them. It is for moving
	// existing objects under the guard: nobody may write them without it any more. Objects that hold the text of a stamp in
	// another place are refused all the same. Default is to refuse all objects without a stamp.
	Adopt bool

	// MaxRetries bounds how often an operation looks again and sends its write again, after a conflict or without an answer;
	// default 20, with random pauses of up to 100 ms. It cannot be negative.
	MaxRetries int

	// OnOutcome is called once at the end of each Put, Delete, Seal and Collect with its arguments and the error it is about to
	// return. When the content panics, the error wraps guard.ErrUnknown, and the panic goes on. It must return quickly: the
	// caller waits. nil: nothing is called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

// Guard guards the objects of one bucket. It is safe for concurrent use. [New] makes one; all that the zero Guard does is to
// return errors.
type Guard struct {
	bucket Bucket
	codec  codec
	opts   Options
	turns  turns
}

var _ guard.Sealer = (*Guard)(nil)

// New returns a guard for the objects of b, after it has tried with a few small objects under Options.Prefix whether b keeps
// its promises: it is refused when a second create, a write on a former version or one on a version that is gone is applied,
// when a read does not see the write before it, or when versions do not change. The objects are removed again. nil Options
// are the defaults. ctx governs the call; when it ends while there is something to remove, New takes up to 2 s more for that.
func New(ctx context.Context, b Bucket, o *Options) (*Guard, error) {
	if b == nil {
		return nil, errors.New("blobguard: the Bucket is nil")
	}
	if o == nil {
		o = &Options{}
	}
	g := &Guard{bucket: b, opts: *o, codec: o.Codec.c}
	switch {
	case g.codec == nil:
		g.codec = pointer{}
	case g.codec == verbatim{}:
		if _, ok := b.(StampBucket); !ok || !b.UniqueVersions() {
			return nil, fmt.Errorf("blobguard: Options.Codec: %s needs a StampBucket in which every write gets a version of its own; in this bucket (%T) "+
				"a late write can pass after the same content was written again: use Pointer for bytes of any kind", g.codec, b)
		}
	}
	if c, ok := g.codec.(comment); ok {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("blobguard: Options.Codec: %w", err)
		}
	}
	if len(o.Prefix) > 256 || !utf8.ValidString(o.Prefix) || strings.ContainsRune(o.Prefix, 0) {
		return nil, fmt.Errorf("blobguard: Options.Prefix: %.40q is not valid UTF-8 of at most 256 bytes without NUL", o.Prefix)
	}
	if strings.Contains(o.Prefix, dataFolder) {
		return nil, fmt.Errorf("blobguard: Options.Prefix: %.40q has a part that ends in %q, where Pointer keeps data", o.Prefix, strings.TrimSuffix(dataFolder, "/"))
	}
	switch {
	case o.MaxRetries < 0:
		return nil, fmt.Errorf("blobguard: Options.MaxRetries: %d is negative; 0 is the default of %d", o.MaxRetries, defaultRetries)
	case o.MaxRetries == 0:
		g.opts.MaxRetries = defaultRetries
	}
	if err := g.probe(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// made returns an error for a Guard that New did not make.
func (g *Guard) made() error {
	if g == nil || g.bucket == nil {
		return errors.New("blobguard: this Guard was not made by New")
	}
	return nil
}

// key returns where the resource's object is.
func (g *Guard) key(resource string) (string, error) {
	if err := guard.CheckResource(resource); err != nil {
		return "", err
	}
	key := resource
	if g.opts.Key != nil {
		key = g.opts.Key(resource)
	}
	whole := g.opts.Prefix + key
	if key == "" || len(whole) > maxKey || !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return "", fmt.Errorf("blobguard: the key %.40q of %.40q is not valid UTF-8 of 1 to %d bytes without NUL, Options.Prefix included; "+
			"give Options.Key", whole, resource, maxKey)
	}
	for part := range strings.SplitSeq(whole, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("blobguard: the key %.40q of %.40q has the part %q, which clients and servers may take for another key; "+
				"give Options.Key", whole, resource, part)
		}
	}
	// With every codec: another guard of the bucket may have Pointer, and take the object for data of its own.
	if strings.Contains(whole, dataFolder) {
		return "", fmt.Errorf("blobguard: the key %.40q of %.40q has a part before the last that ends in %q, where Pointer keeps the data of "+
			"another object, and Collect and Purge remove it; give Options.Key", whole, resource, strings.TrimSuffix(dataFolder, "/"))
	}
	return whole, nil
}

// outcome runs an operation and hands its outcome to the user.
func (g *Guard) outcome(ctx context.Context, resource string, tok guard.Token, run func() error) (err error) {
	ended := false
	defer func() {
		if !ended { // the content, a Bucket or Options.Key has panicked
			err = fmt.Errorf("blobguard: %q: %w: the operation did not return", resource, guard.ErrUnknown)
		}
		if g.opts.OnOutcome != nil {
			g.opts.OnOutcome(ctx, resource, tok, err)
		}
	}()
	err = run()
	ended = true
	return err
}
