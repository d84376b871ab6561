//go:build unix

// Package s3test runs a private S3 server for tests, versitygw on a temporary folder: on a free port of 127.0.0.1, gone with
// the test process. A proxy in front of it can lose requests and replies, and drop headers.
//
// Without versitygw a test that needs it is skipped; with FENCEDLOCK_REQUIRE_SERVERS=1 in the environment it fails.
package s3test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/internal/daemon"
)

const errNotInstalled = daemon.NotInstalledError("s3test: versitygw is not installed (neither .tools/bin/versitygw nor on PATH); " +
	"in the repository's root: GOBIN=$PWD/.tools/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0")

// Server is one versitygw with a folder of its own. Its methods are for one goroutine at a time, but for Bucket and Client.
type Server struct {
	*daemon.Daemon
	names atomic.Int64
}

// Start runs a server for one test and stops it at the test's end.
func Start(t testing.TB) *Server {
	t.Helper()
	return daemon.ForTest(t, start)
}

func start() (*Server, error) {
	program := daemon.FindTool("bin/versitygw")
	if program == "" {
		return nil, errNotInstalled
	}
	d, err := daemon.New(daemon.Config{
		Name:   "s3test",
		AsRoot: true, // it does not mind, and the program lies in the repository
		Program: func(dir string, port int) []string {
			return []string{program, "--port", "127.0.0.1:" + strconv.Itoa(port), "--access", accessKey, "--secret", secretKey, "--quiet", "--keep-alive", "posix", "data"}
		},
		Ping: ping,
		Quit: syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	if err = os.Mkdir(filepath.Join(d.Dir, "data"), 0o700); err == nil {
		err = d.Up()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return &Server{Daemon: d}, nil
}

func ping(port int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	_, err := Client("127.0.0.1:"+strconv.Itoa(port), transport).ListBuckets(ctx, nil)
	return err
}

// Restart ends the server the hard way and starts it again on the same port with what it has kept.
func (s *Server) Restart() error {
	s.End(syscall.SIGKILL)
	return s.Up()
}

// Bucket creates an empty bucket for one test and returns its name. It goes away with the server.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", s.names.Add(1))
	if _, err := NewClient(t, s.Address()).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return name
}

// Upload tells whether a request writes an object.
func Upload(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 0
}

const (
	region    = "us-east-1"
	accessKey = "fencedlock"
	secretKey = "fencedlock-secret" // of a server that lives as long as a test
)

// NewClient returns a client for a server or a proxy at host:port. Its connections are closed at the test's end.
func NewClient(t testing.TB, address string, options ...func(*s3.Options)) *s3.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	return Client(address, transport, options...)
}

// Client is NewClient over a transport that the caller closes.
func Client(address string, transport http.RoundTripper, options ...func(*s3.Options)) *s3.Client {
	return s3.New(s3.Options{
		Region:       region,
		BaseEndpoint: aws.String("http://" + address),
		UsePathStyle: true,
		HTTPClient:   &http.Client{Transport: transport},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
		}),
	}, options...)
}
