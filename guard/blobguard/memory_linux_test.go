package blobguard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencedlock/fencedlock/guard/blobguard"
	"github.com/fencedlock/fencedlock/guard/blobguard/s3bucket"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/internal/s3test"
)

// pattern is what generated repeats, twice, so that it can be read on from anywhere.
var pattern = bytes.Repeat([]byte("abcdefghijklmnopqrstuvw"), 2<<10)

// generated is content that is nowhere.
type generated struct{ size, pos int64 }

func (g *generated) Read(p []byte) (int, error) {
	if g.pos >= g.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), g.size-g.pos, int64(len(pattern)/2))]
	copy(p, pattern[g.pos%int64(len(pattern)/2):])
	g.pos += int64(len(p))
	return len(p), nil
}

func (g *generated) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += g.pos
	case io.SeekEnd:
		offset += g.size
	}
	g.pos = offset
	return offset, nil
}

func init() { roles["memory"] = memoryRole }

// memoryRole does one thing with a large object, and says the most memory that its process ever had, in KiB.
func memoryRole(self *child.Self) error {
	ctx := context.Background()
	address, bucket, what := self.Args[0], self.Args[1], self.Args[2]
	size, err := strconv.ParseInt(self.Args[3], 10, 64)
	if err != nil {
		return err
	}
	transport := &http.Transport{}
	client := s3test.Client(address, transport)
	name, codec, _ := strings.Cut(what, " ")
	opts := &blobguard.Options{Codec: blobguard.Pointer()}
	if codec == "comment" {
		opts.Codec = blobguard.Comment("# ")
	}
	g, err := blobguard.New(ctx, s3bucket.New(client, bucket), opts)
	if err != nil {
		return err
	}
	key := codec
	switch name {
	case "sdk-put":
		_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("sdk"), Body: &generated{size: size}})
	case "sdk-get":
		var o *s3.GetObjectOutput
		if o, err = client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("sdk")}); err == nil {
			err = same(o.Body, size)
		}
	case "put":
		err = g.Put(ctx, key, 5, &generated{size: size})
	case "get":
		var v blobguard.Value
		if v, err = g.Get(ctx, key); err == nil {
			err = same(v.Body, size)
		}
	case "seal":
		err = g.Seal(ctx, key, 6)
	}
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			self.Say("peak " + strings.Fields(kib)[0])
			return nil
		}
	}
	return errors.New("no VmHWM")
}

// same reads what generated wrote.
func same(r io.ReadCloser, size int64) error {
	want, got, expected := &generated{size: size}, make([]byte, 16<<10), make([]byte, 16<<10)
	for {
		n, err := io.ReadFull(r, got)
		m, _ := io.ReadFull(want, expected)
		switch {
		case n != m || !bytes.Equal(got[:n], expected[:n]):
			return fmt.Errorf("at byte %d of %d something else was read: %w", want.pos, size, err)
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return r.Close()
		case err != nil:
			return err
		}
	}
}

// A large object goes through the guard without being held in memory: beside what the SDK itself needs for the same object,
// each in a process of its own, it takes at most 32 MiB.
func TestLargeObjectsTakeLittleMemory(t *testing.T) {
	const limit = 32 << 10 // KiB
	size := int64(64 << 20)
	if soak {
		size = 1 << 30
	}
	s := s3test.Start(t) // its folder is large, and goes away with the test
	bucket := s.Bucket(t)
	peak := func(what string) int64 {
		t.Helper()
		begin := time.Now()
		p := child.Start(t, "memory", s.Address(), bucket, what, strconv.FormatInt(size, 10))
		kib, err := strconv.ParseInt(p.Expect("peak", 10*time.Minute), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(time.Minute); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-12s of %d MiB: at most %d MiB in memory, %v", what, size>>20, kib>>10, time.Since(begin).Round(time.Millisecond))
		return kib
	}
	sdkPut, sdkGet := peak("sdk-put"), peak("sdk-get")
	for _, codec := range []string{"comment", "pointer"} {
		for _, c := range []struct {
			what string
			sdk  int64
		}{{"put", sdkPut}, {"get", sdkGet}, {"seal", sdkPut}} {
			if kib := peak(c.what + " " + codec); kib-c.sdk > limit {
				t.Errorf("%s %s: %d MiB more than the SDK's own; want at most 32", c.what, codec, (kib-c.sdk)>>10)
			}
		}
	}
}
