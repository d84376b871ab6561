//go:build unix

package azbucket_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/internal/aztest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// Against a store that ignores conditions all tests of a program pass, and nothing is guarded. Here a policy of the client
// takes them away before the request is signed, as Azure would refuse one that was changed on its way.
//
// https://github.com/pithings/mountx/issues/19
func TestStoreThatIgnoresConditionsIsRefused(t *testing.T) {
	for _, codec := range codecs {
		s := aztest.Shared(t)
		name := newContainer(t, s)
		var ignored dropConditions
		client := newClient(t, s.Address(), name, &container.ClientOptions{ClientOptions: azcore.ClientOptions{PerCallPolicies: []policy.Policy{&ignored}}})
		_, err := blobguard.New(t.Context(), azbucket.New(client), &blobguard.Options{Codec: codec})
		if err == nil || !strings.Contains(err.Error(), "ignores conditions") {
			t.Errorf("%s: New = %v; want an error that says that conditions are ignored", codec, err)
		}
		if ignored == 0 {
			t.Error("no condition came")
		}
		for key, err := range azbucket.New(newClient(t, s.Address(), name, nil)).List(t.Context(), "") {
			t.Errorf("the probe left %q, %v", key, err)
		}
	}
}

// dropConditions counts them.
type dropConditions int

func (d *dropConditions) Do(r *policy.Request) (*http.Response, error) {
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if h := r.Raw().Header; aztest.Upload(r.Raw()) && h.Get(name) != "" {
			h.Del(name)
			*d++
		}
	}
	return r.Next()
}

// A write was applied, and its answer lost. To take what is found then for another's makes a holder give up its own write.
//
// https://github.com/aws/aws-sdk-java-v2/issues/6580
// https://github.com/apache/hudi/issues/14373
func TestOwnWriteWhoseAnswerWasLostIsApplied(t *testing.T) {
	for _, codec := range codecs {
		for name, fault := range map[string]httpfault.Fault{"cut": httpfault.LoseReply, "502": gatewayError} {
			direct, through, proxy := newBucket(t)
			opts := &blobguard.Options{Codec: codec}
			g, other := newGuard(t, through, opts), newGuard(t, direct, opts)
			for tok := guard.Token(5); tok < 8; tok++ { // creates, replaces
				hits := 0
				proxy.Set(httpfault.Only(func(r *http.Request) bool { hits++; return aztest.Upload(r) && hits < 3 }, fault))
				err := g.Put(t.Context(), "doc", tok, strings.NewReader(tok.String()))
				proxy.Set(nil)
				if err != nil {
					t.Errorf("%s, %s, token %d: %v; want nil", codec, name, int64(tok), err)
				}
				holds(t, other, tok.String(), tok)
			}
		}
	}
}

func holds(t *testing.T, g *blobguard.Guard, want string, mark guard.Token) {
	t.Helper()
	v, err := g.Get(t.Context(), "doc")
	if err != nil {
		t.Fatal(err)
	}
	c, err := io.ReadAll(v.Body)
	if err := errors.Join(err, v.Body.Close()); err != nil || string(c) != want || v.Token != mark {
		t.Errorf("it holds %.40q with mark %d, %v; want %q with %d", c, int64(v.Token), err, want, int64(mark))
	}
}

// A holder's upload is held up on its way until its successor has written, the very bytes that the holder had found.
func TestLateUploadOfAPausedHolderIsRefused(t *testing.T) {
	for _, codec := range codecs {
		direct, through, proxy := newBucket(t)
		paused := newGuard(t, through, &blobguard.Options{Codec: codec, MaxRetries: 1})
		next := newGuard(t, direct, &blobguard.Options{Codec: codec})
		if err := paused.Put(t.Context(), "doc", 5, strings.NewReader("a")); err != nil {
			t.Fatal(err)
		}
		var late httpfault.Late
		proxy.Set(httpfault.Only(aztest.Upload, late.Keep))
		if err := paused.Put(t.Context(), "doc", 5, strings.NewReader("late")); !errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: Put = %v; want ErrUnknown", codec, err)
		}
		proxy.Set(nil)
		for _, c := range []string{"b", "a"} {
			if err := next.Put(t.Context(), "doc", 6, strings.NewReader(c)); err != nil {
				t.Fatal(err)
			}
		}
		if statuses := late.Release(); len(statuses) == 0 || slices.ContainsFunc(statuses, func(s int) bool { return s != http.StatusPreconditionFailed && s != http.StatusConflict }) {
			t.Errorf("%s: the late uploads were answered %v; want 412", codec, statuses)
		}
		holds(t, next, "a", 6)
	}
}

// The control: the same without a guard.
func TestLateUploadWithoutAGuardOverwritesItsSuccessor(t *testing.T) {
	s := aztest.Shared(t)
	name := newContainer(t, s)
	proxy := httpfault.New(t, s.Address())
	write := func(address, content string) error {
		ctx := policy.WithRetryOptions(t.Context(), policy.RetryOptions{MaxRetries: -1})
		_, err := newClient(t, address, name, nil).NewBlockBlobClient("doc").Upload(ctx, streaming.NopCloser(strings.NewReader(content)), nil)
		return err
	}
	var late httpfault.Late
	proxy.Set(httpfault.Only(aztest.Upload, late.Keep))
	if err := write(proxy.Address, "late"); err == nil {
		t.Fatal("the upload was not held up")
	}
	if err := write(s.Address(), "successor"); err != nil {
		t.Fatal(err)
	}
	late.Release()
	if c := content(t, azbucket.New(newClient(t, s.Address(), name, nil)), "doc"); c != "late" {
		t.Errorf("it holds %q: the story shows nothing", c)
	}
}

// What it wanted to replace is gone. To create it, with a low token, would let all the late writers in.
//
// https://github.com/apache/arrow-rs/pull/6801
func TestVanishedObjectIsNotMadeAnew(t *testing.T) {
	for _, codec := range codecs {
		direct, _, _ := newBucket(t)
		g := newGuard(t, direct, &blobguard.Options{Codec: codec})
		if err := g.Put(t.Context(), "doc", 5, strings.NewReader("a")); err != nil {
			t.Fatal(err)
		}
		if err := direct.Delete(t.Context(), "doc"); err != nil {
			t.Fatal(err)
		}
		if err := g.Put(t.Context(), "doc", 5, strings.NewReader("b")); !errors.Is(err, blobguard.ErrMarkLost) {
			t.Errorf("%s: Put = %v; want ErrMarkLost", codec, err)
		}
		if _, err := direct.Get(t.Context(), "doc", 0, 0); !errors.Is(err, blobguard.ErrNotExist) {
			t.Errorf("%s: the object is there again: %v", codec, err)
		}
	}
}
