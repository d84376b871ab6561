//go:build unix

package s3bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// The SDK tries three times by itself; for a write on condition it must not.
func TestPutIsOneRequestWhateverTheAnswer(t *testing.T) {
	s := s3test.Shared(t)
	name := s.Bucket(t)
	for fault, retries := range map[s3test.Fault]func(*s3.Options){
		s3test.LoseReply: func(*s3.Options) {}, s3test.LoseRequest: func(o *s3.Options) { o.RetryMaxAttempts = 5 }, s3test.Fail: func(o *s3.Options) { o.RetryMode = aws.RetryModeAdaptive },
	} {
		proxy := s3test.NewProxy(t, s.Address())
		b := s3bucket.New(s3test.NewClient(t, proxy.Address(), retries), name)
		proxy.Set(func(*http.Request) s3test.Fault { return fault })
		_, err := b.Put(t.Context(), fmt.Sprint("once ", fault), strings.NewReader("x"), "")
		if err == nil || errors.Is(err, blobguard.ErrConflict) || errors.Is(err, blobguard.ErrRefused) {
			t.Errorf("fault %d: Put = %v; want an error that leaves the outcome open", fault, err)
		}
		if n := len(proxy.Requests()); n != 1 {
			t.Errorf("fault %d: Put sent %d requests", fault, n)
		}
		// Nor for a deletion: the first request would remove what is written after the answer to the second.
		if err := b.Delete(t.Context(), "once"); err == nil || errors.Is(err, blobguard.ErrRefused) {
			t.Errorf("fault %d: Delete = %v; want an error that leaves the outcome open", fault, err)
		}
		if n := len(proxy.Requests()); n != 1 {
			t.Errorf("fault %d: Delete sent %d requests", fault, n)
		}
	}
}

func TestAnswersToDelete(t *testing.T) {
	for status, refused := range map[int]bool{403: true, 404: true, 301: true, 400: true, 500: false, 503: false, 408: false, 429: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
		err := s3bucket.New(s3test.NewClient(t, strings.TrimPrefix(server.URL, "http://")), "b").Delete(t.Context(), "k")
		server.Close()
		if err == nil || errors.Is(err, blobguard.ErrRefused) != refused {
			t.Errorf("%d: Delete = %v; ErrRefused is to be %v", status, err, refused)
		}
	}
}

// What an answer says about the write, for those that the test's server does not give.
func TestAnswersToPut(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		expect blobguard.Version
		want   error // nil: open
	}{
		{412, "PreconditionFailed", "", blobguard.ErrConflict},
		{412, "PreconditionFailed", "v", blobguard.ErrConflict},
		{409, "ConditionalRequestConflict", "", blobguard.ErrConflict},
		{409, "ConditionalRequestConflict", "v", blobguard.ErrConflict},
		{409, "OperationAborted", "v", blobguard.ErrConflict},
		{409, "ExistingObjectIsDirectory", "", blobguard.ErrRefused},
		{409, "ObjectParentIsFile", "", blobguard.ErrRefused},
		{409, "ExistingObjectIsFile", "v", blobguard.ErrRefused},
		{409, "XMinioObjectExistsAsDirectory", "", blobguard.ErrRefused},
		{404, "NoSuchKey", "v", blobguard.ErrConflict},
		{404, "NoSuchKey", "", blobguard.ErrRefused},
		{404, "NoSuchBucket", "v", blobguard.ErrRefused},
		{403, "AccessDenied", "v", blobguard.ErrRefused},
		{400, "EntityTooLarge", "", blobguard.ErrRefused},
		{301, "PermanentRedirect", "", blobguard.ErrRefused},
		{501, "NotImplemented", "", nil},
		{500, "InternalError", "v", nil},
		{503, "SlowDown", "v", nil},
		{504, "", "v", nil},
		{408, "RequestTimeout", "", nil},
		{429, "TooManyRequests", "", nil},
		{200, "", "", nil}, // without an ETag
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			if c.code != "" {
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>m</Message></Error>", c.code)
			}
		}))
		b := s3bucket.New(s3test.NewClient(t, strings.TrimPrefix(server.URL, "http://")), "b")
		_, err := b.Put(t.Context(), "k", strings.NewReader("x"), c.expect)
		server.Close()
		for _, is := range []error{blobguard.ErrConflict, blobguard.ErrRefused} {
			if err == nil || errors.Is(err, is) != (is == c.want) {
				t.Errorf("%d %s to a condition on %q: %v; want %v", c.status, c.code, c.expect, err, c.want)
			}
		}
	}
}

func TestPutWithoutAServerIsRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(server.URL, "http://")
	server.Close()
	b := s3bucket.New(s3test.NewClient(t, address), "b")
	if _, err := b.Put(t.Context(), "k", strings.NewReader("x"), ""); !errors.Is(err, blobguard.ErrRefused) {
		t.Errorf("Put = %v; want ErrRefused: no connection, so nothing was sent", err)
	}
	for _, b := range []*s3bucket.Bucket{nil, {}, s3bucket.New(nil, "b"), s3bucket.New(s3test.NewClient(t, address), "")} {
		if _, err := b.Put(t.Context(), "k", strings.NewReader("x"), ""); !errors.Is(err, blobguard.ErrRefused) {
			t.Errorf("Put = %v; want ErrRefused", err)
		}
		if _, err := b.Get(t.Context(), "k", 0, -1); err == nil || errors.Is(err, blobguard.ErrNotExist) {
			t.Errorf("Get = %v; want an error", err)
		}
		if err := b.Delete(t.Context(), "k"); !errors.Is(err, blobguard.ErrRefused) {
			t.Errorf("Delete = %v; want ErrRefused", err)
		}
		for _, err := range b.List(t.Context(), "") {
			if err == nil {
				t.Error("List = nil")
			}
		}
	}
}

// A client that finds no credentials sends nothing, and that is certain, although the body was read to sign it.
func TestPutThatCannotBeSignedIsRefused(t *testing.T) {
	s := s3test.Shared(t)
	name := s.Bucket(t)
	proxy := s3test.NewProxy(t, s.Address())
	none := errors.New("no credentials")
	b := s3bucket.New(s3test.NewClient(t, proxy.Address(), func(o *s3.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, none })
	}), name)
	for _, content := range []string{"", "content"} {
		if _, err := b.Put(t.Context(), "k", strings.NewReader(content), ""); !errors.Is(err, blobguard.ErrRefused) || !errors.Is(err, none) || errors.Is(err, blobguard.ErrConflict) {
			t.Errorf("Put = %v; want ErrRefused, and the cause", err)
		}
	}
	if n := len(proxy.Requests()); n != 0 {
		t.Errorf("Put sent %d requests", n)
	}
}

// A large body whose sending broke off in the middle was not written; one that was sent to its end may have been.
func TestBodyThatWasNotSentToItsEndIsAConflict(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 64<<20) // more than the sockets on the way hold, as TCP lets them grow
	for name, c := range map[string]struct {
		read int64
		want bool
	}{"its beginning": {1 << 20, true}, "all": {int64(len(big)), false}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := r.Body.Read(make([]byte, 1)); err == nil {
				rest := make([]byte, 64<<10)
				for n := int64(1); n < c.read; {
					m, err := r.Body.Read(rest)
					if n += int64(m); err != nil {
						break
					}
				}
			}
			panic(http.ErrAbortHandler)
		}))
		b := s3bucket.New(s3test.NewClient(t, strings.TrimPrefix(server.URL, "http://")), "b")
		_, err := b.Put(t.Context(), "k", bytes.NewReader(big), "")
		server.Close()
		if err == nil || errors.Is(err, blobguard.ErrConflict) != c.want || errors.Is(err, blobguard.ErrRefused) {
			t.Errorf("%s was read: Put = %v; ErrConflict is to be %v", name, err, c.want)
		}
	}
}

// A bucket that is not there, or not ours, is not an object that is not there.
func TestMissingBucketIsNoMissingObject(t *testing.T) {
	s := s3test.Shared(t)
	b := s3bucket.New(s3test.NewClient(t, s.Address()), "no-such-bucket")
	for _, r := range [][2]int64{{0, -1}, {0, 0}, {0, 10}, {-10, -1}} {
		if _, err := b.Get(t.Context(), "k", r[0], r[1]); err == nil || errors.Is(err, blobguard.ErrNotExist) {
			t.Errorf("Get(%d, %d) = %v; want an error that is not ErrNotExist", r[0], r[1], err)
		}
	}
	if _, err := b.Put(t.Context(), "k", strings.NewReader("x"), "v"); !errors.Is(err, blobguard.ErrRefused) {
		t.Errorf("Put = %v; want ErrRefused", err)
	}
	if _, err := blobguard.New(context.WithoutCancel(t.Context()), b, nil); err == nil {
		t.Error("New = nil; want an error")
	}
}

// Checksums, which the SDK's default configuration adds, are the client's choice.
func TestClientWithChecksumsPassesToo(t *testing.T) {
	s := s3test.Shared(t)
	b := s3bucket.New(s3test.NewClient(t, s.Address(), func(o *s3.Options) {
		o.RequestChecksumCalculation, o.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenSupported, aws.ResponseChecksumValidationWhenSupported
	}), s.Bucket(t))
	g, err := blobguard.New(t.Context(), b, &blobguard.Options{Codec: blobguard.Comment("# ")})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 100, 1 << 20} {
		content := bytes.Repeat([]byte("y"), size)
		if err := g.Put(t.Context(), "doc", 5, bytes.NewReader(content)); err != nil {
			t.Error(err)
		}
		v, err := g.Get(t.Context(), "doc")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(v.Body); err != nil || !bytes.Equal(got.Bytes(), content) {
			t.Errorf("%d bytes came back as %d, %v", size, got.Len(), err)
		}
		if err := v.Body.Close(); err != nil {
			t.Error(err)
		}
		if err := g.Seal(t.Context(), "doc", 5); err != nil {
			t.Error(err)
		}
	}
}

// A store that keeps objects as files can have "account" or "account/1", and trying again does not change that.
func TestNameOfAnotherObjectsFolderIsRefusedAtOnce(t *testing.T) {
	s := s3test.Shared(t)
	proxy := s3test.NewProxy(t, s.Address())
	g, err := blobguard.New(t.Context(), s3bucket.New(s3test.NewClient(t, proxy.Address()), s.Bucket(t)), &blobguard.Options{Codec: blobguard.JSON()})
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []string{"account/1", "folder"} {
		if err := g.Put(t.Context(), first, 5, strings.NewReader("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for _, second := range []string{"account", "folder/1"} {
		proxy.Requests()
		err := g.Put(t.Context(), second, 5, strings.NewReader("{}"))
		if err == nil || errors.Is(err, blobguard.ErrBusy) || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("Put to %q = %v; want an error that is certain, and not ErrBusy", second, err)
		}
		if log := proxy.Requests(); len(log) > 4 {
			t.Errorf("Put to %q = %v after %d requests", second, err, len(log))
		}
	}
}
