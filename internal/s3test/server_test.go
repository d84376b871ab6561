//go:build unix

package s3test_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/internal/s3test"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(s3test.Main(m)) }

// once switches the SDK's retries off.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

func create(t *testing.T, address, bucket, key string) error {
	t.Helper()
	_, err := s3test.NewClient(t, address).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")}, once)
	return err
}

func exists(t *testing.T, address, bucket, key string) bool {
	t.Helper()
	_, err := s3test.NewClient(t, address).HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: &bucket, Key: &key}, once)
	return err == nil
}

func TestServerKeepsItsDataOverACrash(t *testing.T) {
	s := s3test.Start(t)
	bucket := s.Bucket(t)
	if err := create(t, s.Address(), bucket, "k"); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if !exists(t, s.Address(), bucket, "k") {
		t.Error("the object is gone")
	}
	if err := create(t, s.Address(), bucket, "k"); err == nil {
		t.Error("it was created a second time")
	}
}

func TestProxyDoesWhatItSays(t *testing.T) {
	s := s3test.Shared(t)
	p := s3test.NewProxy(t, s.Address())
	for _, c := range []struct {
		fault      s3test.Fault
		fails, was bool // what the client hears, and what the server did, before Release
	}{
		{s3test.Pass, false, true}, {s3test.LoseRequest, true, false}, {s3test.LoseReply, true, true}, {s3test.DelayRequest, true, false},
		{s3test.Repeat, true, true}, {s3test.DropConditions, false, true}, {s3test.Fail, true, false},
	} {
		bucket := s.Bucket(t)
		struck := p.Once(c.fault)
		err := create(t, p.Address(), bucket, "a key")
		<-struck
		if (err != nil) != c.fails || exists(t, p.Address(), bucket, "a key") != c.was {
			t.Errorf("fault %d: %v; the client was to fail: %v, and the object to be there: %v", c.fault, err, c.fails, c.was)
		}
		if c.fault == s3test.DelayRequest {
			if got := p.Release(); !slices.Equal(got, []int{http.StatusOK}) || !exists(t, s.Address(), bucket, "a key") {
				t.Errorf("Release = %v; want 200, and the object", got)
			}
			continue
		}
		p.Once(c.fault)
		if err := create(t, p.Address(), bucket, "a key"); (err == nil) != (c.fault == s3test.DropConditions) {
			t.Errorf("fault %d: a second create = %v", c.fault, err)
		}
	}
	if n := len(p.Requests()); n < 14 || len(p.Requests()) != 0 {
		t.Errorf("%d requests were seen", n)
	}
}

// The test runs itself again as a child, kills it while its server runs, and looks for what is left.
func TestKilledTestLeavesNothingBehind(t *testing.T) {
	if dir := os.Getenv("S3TEST_CHILD"); dir != "" {
		s := s3test.Start(t)
		if err := os.WriteFile(filepath.Join(dir, "address"), []byte(s.Address()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "address"), filepath.Join(dir, "ready")); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	s3test.Shared(t) // skips without versitygw
	dir, tmp := t.TempDir(), t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe, "-test.run=^TestKilledTestLeavesNothingBehind$")
	child.Env = append(os.Environ(), "S3TEST_CHILD="+dir, "TMPDIR="+tmp)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "ready")
	eventually(t, "the child's server runs", func() bool { _, err := os.Stat(ready); return err == nil })
	address, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	answers := func() bool {
		_, err := s3test.NewClient(t, string(address)).ListBuckets(t.Context(), nil, once)
		return err == nil
	}
	if !answers() {
		t.Error("the child's server does not answer")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	eventually(t, "the folder is gone", func() bool { left, err := os.ReadDir(tmp); return err == nil && len(left) == 0 })
	if answers() {
		t.Error("the killed test's server still answers")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func TestMissingServerSkipsUnlessRequired(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("S3TEST_MISSING") == "1" {
		s3test.Hide()
		s3test.Shared(t)
		return
	}
	for _, required := range []string{"0", "1"} {
		c := exec.Command(exe, "-test.run=^TestMissingServerSkipsUnlessRequired$", "-test.v")
		c.Env = append(os.Environ(), "S3TEST_MISSING=1", "FENCEDLOCK_REQUIRE_SERVERS="+required)
		out, err := c.CombinedOutput()
		if failed := err != nil; failed != (required == "1") {
			t.Errorf("with FENCEDLOCK_REQUIRE_SERVERS=%s: %v\n%s", required, err, out)
		}
	}
}
