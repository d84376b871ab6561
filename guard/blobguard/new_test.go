//go:build unix

package blobguard_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/internal/membucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := blobguard.New(t.Context(), nil, nil); err == nil {
		t.Error("New without a bucket = nil")
	}
	for _, c := range []struct {
		field string
		opts  blobguard.Options
	}{
		{"Codec", blobguard.Options{Codec: blobguard.Comment("")}},
		{"Codec", blobguard.Options{Codec: blobguard.Comment("#\n")}},
		{"Codec", blobguard.Options{Codec: blobguard.Comment("§")}},
		{"Codec", blobguard.Options{Codec: blobguard.Comment(strings.Repeat("#", 33))}},
		{"Prefix", blobguard.Options{Prefix: "\xff"}},
		{"Prefix", blobguard.Options{Prefix: "a\x00"}},
		{"Prefix", blobguard.Options{Prefix: strings.Repeat("x", 257)}},
		{"MaxRetries", blobguard.Options{MaxRetries: -1}},
	} {
		if _, err := blobguard.New(t.Context(), membucket.New(true), &c.opts); err == nil || !strings.HasPrefix(err.Error(), "blobguard: Options."+c.field+": ") {
			t.Errorf("New with a bad %s: %v", c.field, err)
		}
	}
}

func TestVerbatimIsRefusedWhereVersionsAreNotUnique(t *testing.T) {
	b, _ := newBucket(t)
	for _, b := range []blobguard.Bucket{b, membucket.New(false), struct{ blobguard.Bucket }{membucket.New(true)}} {
		_, err := blobguard.New(t.Context(), b, &blobguard.Options{Codec: blobguard.Verbatim()})
		if err == nil || !strings.Contains(err.Error(), "Options.Codec") || !strings.Contains(err.Error(), "version of its own") {
			t.Errorf("New with Verbatim on %T = %v; want an error that says why", b, err)
		}
	}
}

func TestKeysThatServersMistakeAreRefused(t *testing.T) {
	b := membucket.New(false)
	g := newGuard(t, b, &blobguard.Options{Prefix: "p/"})
	for _, r := range []string{"/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "/"} {
		if err := put(t, g, r, 5, "x"); err == nil || !strings.Contains(err.Error(), "Options.Key") {
			t.Errorf("Put to %q = %v; want an error that names Options.Key", r, err)
		}
	}
	mustPut(t, g, "a/b.txt", 5, "x")
	if got := keys(t, b, ""); len(got) != 2 || got[0] != "p/a/b.txt" {
		t.Errorf("keys are %q", got)
	}
	for name, key := range map[string]string{"empty": "", "long": strings.Repeat("x", 900), "NUL": "a\x00b", "no UTF-8": "\xff"} {
		g := newGuard(t, b, &blobguard.Options{Prefix: "p/", Key: func(string) string { return key }})
		if err := put(t, g, "a", 5, "x"); err == nil || !strings.Contains(err.Error(), "Options.Key") {
			t.Errorf("%s: Put = %v; want an error that names Options.Key", name, err)
		}
	}
}

// Zero is no wish for "no fencing, please", and needs no store to be refused.
//
// https://github.com/awslabs/amazon-dynamodb-lock-client/issues/1
// https://github.com/bsm/redislock/pull/94
func TestWhatIsNoTokenReachesNoStore(t *testing.T) {
	_, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		g := newGuard(t, through, &blobguard.Options{Codec: codec})
		mustPut(t, g, "marked", 5, encode(codec, "a"))
		proxy.Requests()
		for _, r := range []string{"marked", "never"} {
			for _, tok := range []guard.Token{0, -1, -1 << 63} {
				_, err := g.Collect(t.Context(), r, tok)
				if codec != blobguard.Pointer() {
					err = guard.ErrNoToken
				}
				for op, err := range map[string]error{"Put": put(t, g, r, tok, encode(codec, "b")), "Delete": g.Delete(t.Context(), r, tok), "Seal": g.Seal(t.Context(), r, tok), "Collect": err} {
					if !errors.Is(err, guard.ErrNoToken) {
						t.Errorf("%s with token %d = %v; want ErrNoToken", op, int64(tok), err)
					}
				}
			}
		}
		if log := proxy.Requests(); len(log) > 0 {
			t.Errorf("the store was asked %d times", len(log))
		}
		if err := g.Purge(t.Context(), "marked"); err != nil {
			t.Fatal(err)
		}
	})
}

// What the guard knows from its own last write it does not read again.
func TestPutIsOneRequestWhereTheVersionIsKnown(t *testing.T) {
	b, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	g, other := newGuard(t, through, &blobguard.Options{Codec: blobguard.JSON()}), newGuard(t, b, &blobguard.Options{Codec: blobguard.JSON()})
	requests := func(want string) {
		t.Helper()
		var got []string
		for _, r := range proxy.Requests() {
			got = append(got, r.Method)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("requests are %s; want %s", s, want)
		}
	}
	proxy.Requests()
	mustPut(t, g, "doc", 5, "{}")
	requests("GET PUT")
	mustPut(t, g, "doc", 5, `{"a":1}`)
	requests("PUT")
	if err := g.Delete(t.Context(), "doc", 6); err != nil {
		t.Error(err)
	}
	requests("PUT")
	mustPut(t, other, "doc", 7, "{}")
	mustPut(t, g, "doc", 8, "{}") // what it knows is not true any more
	requests("PUT GET PUT")
	mustPut(t, other, "doc", 9, "{}")
	var stale *guard.StaleError
	if err := put(t, g, "doc", 7, "{}"); !errors.As(err, &stale) || stale.Highest != 9 { // below what it knows; it looks all the same
		t.Errorf("Put = %v; want stale after 9", err)
	}
	requests("GET")
}

func TestOutcomesAreReported(t *testing.T) {
	var got []string
	g := newGuard(t, membucket.New(false), &blobguard.Options{OnOutcome: func(_ context.Context, resource string, tok guard.Token, err error) {
		got = append(got, fmt.Sprint(resource, " ", int64(tok), " ", errors.Is(err, guard.ErrStale), err == nil))
	}})
	mustPut(t, g, "doc", 5, "a")
	_ = put(t, g, "doc", 4, "a")
	_ = put(t, g, "doc", 0, "a")
	_ = g.Put(t.Context(), "doc", 5, nil)
	_ = g.Seal(t.Context(), "doc", 6)
	_ = g.Delete(t.Context(), "doc", 5)
	_, _ = g.Collect(t.Context(), "doc", 7)
	_, _ = g.Highest(t.Context(), "doc")
	_, _, _ = get(t, g, "doc")
	_ = g.Purge(t.Context(), "doc")
	want := "[doc 5 false true doc 4 true false doc 0 false false doc 5 false false doc 6 false true doc 5 true false doc 7 false true]"
	if fmt.Sprint(got) != want {
		t.Errorf("outcomes are\n%v; want\n%s", got, want)
	}
}

// unreadable fails when it is read.
type unreadable struct{ io.ReadSeeker }

var errUnreadable = errors.New("the disk is gone")

func (unreadable) Read([]byte) (int, error) { return 0, errUnreadable }

func TestContentThatCannotBeReadIsNotWritten(t *testing.T) {
	b, _ := newBucket(t)
	onEach(t, func(t *testing.T, codec blobguard.Codec) {
		g := newGuard(t, b, &blobguard.Options{Codec: codec, Key: func(r string) string { return hashed(codec.String() + r) }})
		mustPut(t, g, "doc", 5, encode(codec, "a"))
		err := g.Put(t.Context(), "doc", 6, unreadable{strings.NewReader(encode(codec, "b"))})
		if !errors.Is(err, errUnreadable) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("Put = %v; want the content's own error", err)
		}
		holds(t, g, "doc", encode(codec, "a"), 5)
	})
}

// One guard lets its own writers wait, each with its own limit, so that they do not conflict with each other.
func TestWritersOfOneGuardTakeTurns(t *testing.T) {
	_, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	g := newGuard(t, through, &blobguard.Options{Codec: blobguard.JSON()})
	mustPut(t, g, "doc", 5, "{}")
	proxy.Requests()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { alsoPut(t, g, "doc", 5, "{}") })
	}
	wg.Wait()
	if n := len(proxy.Requests()); n != 10 {
		t.Errorf("10 writes took %d requests", n)
	}

	begun, goOn := make(chan struct{}), make(chan struct{})
	first := true
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method == http.MethodPut && first {
			first = false
			close(begun)
			<-goOn
		}
		return s3test.Pass
	})
	wg.Go(func() { alsoPut(t, g, "doc", 5, "{}") })
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Put(ctx, "doc", 5, strings.NewReader("{}")); !errors.Is(err, context.Canceled) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("Put that waits for its turn = %v; want context.Canceled", err)
	}
	close(goOn)
	wg.Wait()
}

func TestZeroGuardReturnsErrors(t *testing.T) {
	for _, g := range []*blobguard.Guard{nil, {}} {
		_, getErr := g.Get(t.Context(), "x")
		_, highestErr := g.Highest(t.Context(), "x")
		_, collectErr := g.Collect(t.Context(), "x", 5)
		for op, err := range map[string]error{
			"Put": put(t, g, "x", 5, "a"), "Delete": g.Delete(t.Context(), "x", 5), "Seal": g.Seal(t.Context(), "x", 5), "Purge": g.Purge(t.Context(), "x"),
			"Get": getErr, "Highest": highestErr, "Collect": collectErr,
		} {
			if err == nil || !strings.Contains(err.Error(), "not made by New") {
				t.Errorf("%s: %v; want an error about New", op, err)
			}
		}
	}
}

// The key that Options.Key shows, for the names that the resource's name itself does not suit.
func TestKeyOfTheDocumentationSuitsEveryName(t *testing.T) {
	b := membucket.New(false)
	g := newGuard(t, b, &blobguard.Options{
		Key: func(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) },
	})
	names := []string{"/jobs/report", "/", "a//b", "a/", "..", "a/b", "鍵", strings.Repeat("\x01", 512)}
	for i, name := range names {
		mustPut(t, g, name, guard.Token(i+1), name)
	}
	for i, name := range names {
		holds(t, g, name, name, guard.Token(i+1))
	}
}

// No answer came to a request that hung until the caller gave up, and the error does not speak of one.
func TestErrorOfARequestThatHangsSpeaksOfNoAnswer(t *testing.T) {
	_, bucket := newBucket(t)
	proxy, through := throughProxy(t, bucket)
	g := newGuard(t, through, &blobguard.Options{Codec: blobguard.JSON()})
	ctx, cancel := context.WithCancel(t.Context())
	proxy.Set(func(r *http.Request) s3test.Fault {
		if r.Method != http.MethodPut {
			return s3test.Pass
		}
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client is gone
		cancel()
		<-r.Context().Done()
		return s3test.LoseRequest
	})
	err := g.Put(ctx, "doc", 5, strings.NewReader("{}"))
	if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "answer") {
		t.Errorf("Put = %v; want ErrUnknown, and no word of an answer", err)
	}
}
