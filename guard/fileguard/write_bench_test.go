package fileguard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// BenchmarkWriteFile replaces a file with the guard and without it, in turn in one folder, on the disk of the temporary
// folder (TMPDIR) and in memory. Without it means as durably: a temporary file, fsync, rename, fsync of the folder.
// guarded/plain is the ratio of the medians' rates: 1 is for free. A holder's first write also makes the mark durable, so it
// syncs four times where the plain one syncs twice, and 0.5 is the most that it can have; the others sync twice, too.
func BenchmarkWriteFile(b *testing.B) {
	for _, where := range []struct {
		name string
		dir  func(testing.TB) string
	}{{"disk", func(t testing.TB) string { return t.TempDir() }}, {"memory", memoryDir}} {
		for _, size := range []int{1 << 10, 1 << 20} {
			for _, step := range []guard.Token{0, 1} {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", where.name, size>>10, []string{"same holder", "new holder each time"}[step]), func(b *testing.B) {
					benchmarkWriteFile(b, where.dir(b), size, step)
				})
			}
		}
	}
}

func benchmarkWriteFile(b *testing.B, dir string, size int, step guard.Token) {
	g := mustNew(b, dir, nil)
	data := make([]byte, size)
	tok := guard.Token(1)
	guarded := func() error {
		tok += step
		return g.WriteFile(b.Context(), account, tok, "guarded", data, 0o600)
	}
	plain := func() error { return writeAtomically(filepath.Join(dir, "plain"), data) }
	timed := func(op func() error) time.Duration {
		start := time.Now()
		if err := op(); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	for range 5 {
		timed(plain)
		timed(guarded)
	}
	var p, w []time.Duration
	for b.Loop() {
		p = append(p, timed(plain))
		w = append(w, timed(guarded))
	}
	slices.Sort(p)
	slices.Sort(w)
	mp, mw := p[len(p)/2], w[len(w)/2]
	b.ReportMetric(float64(mp)/float64(mw), "guarded/plain")
	b.ReportMetric(float64(mw.Microseconds()), "guarded-µs")
	b.ReportMetric(float64(mp.Microseconds()), "plain-µs")
}

// writeAtomically is what a careful program does without a guard.
func writeAtomically(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "plain-")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
