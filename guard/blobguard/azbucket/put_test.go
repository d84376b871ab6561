//go:build unix

package azbucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/azbucket"
	"github.com/fencedlock/fencedlock/internal/aztest"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// newBucket returns an empty container on the shared server as a bucket, and the same one behind a proxy.
func newBucket(t testing.TB) (direct, through *azbucket.Bucket, proxy *httpfault.Proxy) {
	t.Helper()
	s := aztest.Shared(t)
	name := newContainer(t, s)
	proxy = httpfault.New(t, s.Address())
	return azbucket.New(newClient(t, s.Address(), name, nil)), azbucket.New(newClient(t, proxy.Address, name, nil)), proxy
}

func mustPut(t testing.TB, b blobguard.Bucket, key, content string, expect blobguard.Version) blobguard.Version {
	t.Helper()
	v, err := b.Put(t.Context(), key, strings.NewReader(content), expect)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func content(t testing.TB, b blobguard.Bucket, key string) string {
	t.Helper()
	o, err := b.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := io.ReadAll(o.Body)
	if err := errors.Join(err, o.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(c)
}

// kind is what an error of Put says about the write.
func kind(err error) string {
	switch conflict, refused := errors.Is(err, blobguard.ErrConflict), errors.Is(err, blobguard.ErrRefused); {
	case err == nil:
		return "applied"
	case conflict && refused:
		return "conflict and refused"
	case conflict:
		return "conflict"
	case refused:
		return "refused"
	}
	return "open"
}

// answer is a fault that answers without asking the server.
func answer(status int, code bloberror.Code) httpfault.Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		if code != "" {
			w.Header().Set("x-ms-error-code", string(code))
		}
		w.WriteHeader(status)
	}
}

// gatewayError is a write that was applied, and a proxy on the way back that lost patience.
func gatewayError(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), r)
	w.WriteHeader(http.StatusBadGateway)
}

// The codes are those of https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes: Azurite has few of
// them to offer.
func TestPutSaysWhatIsKnownOfTheWrite(t *testing.T) {
	direct, through, proxy := newBucket(t)
	for i, c := range []struct {
		name  string
		fault httpfault.Fault
		want  string
	}{
		{"reply lost", httpfault.LoseReply, "open"},
		{"request lost", httpfault.LoseRequest, "open"},
		{"502 though applied", gatewayError, "open"},
		{"condition", answer(412, bloberror.ConditionNotMet), "conflict"},
		{"target condition", answer(412, bloberror.TargetConditionNotMet), "conflict"},
		{"exists", answer(409, bloberror.BlobAlreadyExists), "conflict"},
		{"vanished", answer(404, bloberror.BlobNotFound), "conflict"},
		{"lease", answer(412, bloberror.LeaseIDMissing), "refused"},
		{"immutable", answer(409, bloberror.BlobImmutableDueToPolicy), "refused"},
		{"archived", answer(409, bloberror.BlobArchived), "refused"},
		{"container on its way out", answer(409, bloberror.ContainerBeingDeleted), "refused"},
		{"no container", answer(404, bloberror.ContainerNotFound), "refused"},
		{"rights", answer(403, bloberror.AuthorizationPermissionMismatch), "refused"},
		{"credentials", answer(401, ""), "refused"},
		{"form", answer(400, bloberror.InvalidHeaderValue), "refused"},
		{"too large", answer(413, bloberror.RequestBodyTooLarge), "refused"},
		{"time", answer(408, ""), "open"},
		{"too many", answer(429, ""), "open"},
		{"internal", answer(500, bloberror.InternalError), "open"},
		{"timed out", answer(500, bloberror.OperationTimedOut), "open"},
		{"gateway", answer(502, ""), "open"},
		{"busy", answer(503, bloberror.ServerBusy), "open"},
		{"gateway's time", answer(504, ""), "open"},
	} {
		key := fmt.Sprint("said-", i)
		for _, expect := range []blobguard.Version{"", mustPut(t, direct, key+"-replaced", "old", "")} {
			if expect != "" {
				key += "-replaced"
			}
			proxy.Set(c.fault)
			_, err := through.Put(t.Context(), key, strings.NewReader("new"), expect)
			proxy.Set(nil)
			if got := kind(err); got != c.want {
				t.Errorf("%s on %q: Put = %v, which is %s; want %s", c.name, expect, err, got, c.want)
			}
		}
	}
}

func TestPutThatWasNeverSentIsRefused(t *testing.T) {
	direct, through, proxy := newBucket(t)
	var requests atomic.Int64
	proxy.Set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		requests.Add(1)
		forward.ServeHTTP(w, r)
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := through.Put(ended, "k", strings.NewReader("x"), "")
	if kind(err) != "refused" || !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v; want ErrRefused and context.Canceled", err)
	}
	for _, v := range []blobguard.Version{"*", `"`, `""`, "0x8D", `W/"0x8D"`, `"a","b"`, `"a`, `a"`} { // * would be any version
		if _, err := through.Put(t.Context(), "k", strings.NewReader("x"), v); kind(err) != "refused" {
			t.Errorf("version %q: %v; want ErrRefused", v, err)
		}
	}
	if _, err := through.Put(t.Context(), "k", io.NewSectionReader(zeroes{}, 0, azbucket.MaxSize+1), ""); kind(err) != "refused" || !strings.Contains(err.Error(), "split the data") {
		t.Errorf("too large: %v; want ErrRefused", err)
	}
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests came", n)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody answers
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	nobody := azbucket.New(newClient(t, l.Addr().String(), "container", nil))
	if _, err := nobody.Put(t.Context(), "k", strings.NewReader("x"), ""); kind(err) != "refused" {
		t.Errorf("nobody there: %v; want ErrRefused", err)
	}
	if _, err := direct.Get(t.Context(), "k", 0, -1); !errors.Is(err, blobguard.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

type zeroes struct{}

func (zeroes) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// The client tries again by itself what was not answered. Its second request finds what the first one wrote, and the answer
// to that is no answer to the first.
//
// https://github.com/aws/aws-sdk-java-v2/issues/6580
func TestPutSendsOneRequest(t *testing.T) {
	s := aztest.Shared(t)
	name := newContainer(t, s)
	proxy := httpfault.New(t, s.Address())
	client := newClient(t, proxy.Address, name, &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Retry: policy.RetryOptions{MaxRetries: 5, RetryDelay: time.Millisecond}, // the user's choice for all else
	}})
	b := azbucket.New(client)
	for fault, f := range map[string]httpfault.Fault{"502": gatewayError, "503": answer(503, bloberror.ServerBusy), "cut": httpfault.LoseReply} {
		for _, size := range []int{0, 10, 6 << 20} {
			var n atomic.Int64
			proxy.Set(httpfault.Only(func(r *http.Request) bool { return aztest.Upload(r) && n.Add(1) == 1 }, f))
			_, err := b.Put(t.Context(), fmt.Sprint(fault, size), strings.NewReader(strings.Repeat("x", size)), "")
			proxy.Set(nil)
			if kind(err) != "open" || n.Load() != 1 {
				t.Errorf("%s, %d bytes: %d uploads, and %v; want one, and an error that leaves it open", fault, size, n.Load(), err)
			}
		}
	}

	// The control: the client left to itself takes its own write for another's.
	var n atomic.Int64
	proxy.Set(httpfault.Only(func(r *http.Request) bool { return aztest.Upload(r) && n.Add(1) == 1 }, httpfault.LoseReply))
	any := azcore.ETagAny
	_, err := client.NewBlockBlobClient("plain").Upload(t.Context(), streaming.NopCloser(strings.NewReader("x")), &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}},
	})
	if !bloberror.HasCode(err, bloberror.BlobAlreadyExists) || n.Load() != 2 {
		t.Errorf("the client's own write: %d uploads, %v; want a second one that fails, or this test shows nothing", n.Load(), err)
	}
}

// Some libraries send the condition with small writes only, or only with the request that opens a large one.
//
// https://github.com/googleapis/google-cloud-php/pull/5730
// https://github.com/apache/opendal/issues/8198
func TestEveryUploadCarriesItsCondition(t *testing.T) {
	_, through, proxy := newBucket(t)
	var seen []*http.Request
	proxy.Set(func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if aztest.Upload(r) {
			seen = append(seen, r)
		}
		forward.ServeHTTP(w, r)
	})
	for _, size := range []int{0, 1 << 10, 6 << 20, 40 << 20} {
		for _, expect := range []blobguard.Version{"", `"0x1"`} {
			seen = nil
			_, err := through.Put(t.Context(), fmt.Sprint("size-", size), strings.NewReader(strings.Repeat("x", size)), expect)
			if want := map[bool]string{true: "applied", false: "conflict"}[expect == ""]; kind(err) != want {
				t.Errorf("%d bytes on %q: %v; want %s", size, expect, err, want)
			}
			if len(seen) != 1 {
				t.Errorf("%d bytes on %q: %d uploads; want a single one", size, expect, len(seen))
				continue
			}
			h, none := seen[0].Header, map[bool]string{true: "*", false: ""}[expect == ""]
			if h.Get("If-Match") != string(expect) || h.Get("If-None-Match") != none || seen[0].URL.RawQuery != "" || h.Get("x-ms-blob-type") != "BlockBlob" {
				t.Errorf("%d bytes on %q: %s %v", size, expect, seen[0].URL, h)
			}
		}
	}
}

// A lease refuses everybody who does not show it; that says nothing about the version.
func TestBlobWithALeaseIsRefused(t *testing.T) {
	s := aztest.Shared(t)
	client := newClient(t, s.Address(), newContainer(t, s), nil)
	b := azbucket.New(client)
	v := mustPut(t, b, "k", "old", "")
	held, err := lease.NewBlobClient(client.NewBlobClient("k"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.AcquireLease(t.Context(), -1, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "k", strings.NewReader("new"), v); kind(err) != "refused" {
		t.Errorf("Put = %v; want ErrRefused", err)
	}
	if c := content(t, b, "k"); c != "old" {
		t.Errorf("it holds %q", c)
	}
}
