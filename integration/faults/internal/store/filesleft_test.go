//go:build unix

package store

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	begun          = ".fencedlock/tmp-abcdefghijklmnopqrstuvwxyz"
	begunUnguarded = "unguarded-123"
)

// written is a folder in which a worker has written the resource.
func written(t *testing.T, guarded bool) Places {
	p := Places{Files: t.TempDir()}
	name := fileKind.Resource()
	if err := fileKind.Init(t.Context(), p, name); err != nil {
		t.Fatal(err)
	}
	st, err := fileKind.Open(t.Context(), p, guarded)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := history.NewDoc().Apply("op", history.Change{From: 0, To: 1, Amount: 2})
	if err := st.Write(t.Context(), name, 7, Write{Doc: next}); err != nil {
		t.Fatal(err)
	}
	return p
}

// plant makes a file as an ended process would leave it.
func plant(t *testing.T, p Places, name string) {
	if err := os.WriteFile(filepath.Join(p.Files, name), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEachStrayFileIsReported(t *testing.T) {
	otherMark := ".fencedlock/" + strings.Repeat("0a", 32)
	for _, guarded := range []bool{true, false} {
		for _, killed := range []bool{true, false} {
			for _, stray := range []string{
				"", begun, begun + ".new", ".fencedlock/tmp-x", begunUnguarded, "unguarded-x", "other.json", "other.lock", "other.mark",
				".fencedlock/other", otherMark + ".mark", otherMark + ".lock", otherMark + ".mark.new",
			} {
				p := written(t, guarded)
				var want []string
				if stray != "" {
					plant(t, p, stray)
				}
				excused := stray == "" || killed && stray == begun || killed && !guarded && stray == begunUnguarded
				if !excused {
					want = []string{stray}
				}
				left, err := FilesLeft(p, guarded, killed)
				if err != nil || !slices.Equal(left, want) {
					t.Errorf("guarded %t, killed %t: with %q there %q is left, %v; want %q", guarded, killed, stray, left, err, want)
				}
			}
		}
	}
}

func TestAMarkBesideAFreshOneIsReported(t *testing.T) {
	p := written(t, true)
	marks, err := filepath.Glob(filepath.Join(p.Files, ".fencedlock", "*.mark"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("the marks are %q, %v", marks, err)
	}
	if err := os.WriteFile(marks[0]+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	left, err := FilesLeft(p, true, true)
	if want := []string{".fencedlock/" + filepath.Base(marks[0]) + ".new"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q is left, %v; want %q", left, err, want)
	}
	// Without a guard nobody makes a mark.
	if left, err := FilesLeft(p, false, true); err != nil || len(left) != 3 {
		t.Errorf("without a guard %q is left, %v", left, err)
	}
}

// What a killed writer has left is only excused if the next Guard removes it: not while a writer lives.
func TestContentThatNobodyRemovesIsReported(t *testing.T) {
	p := written(t, true)
	plant(t, p, begun)
	f, err := os.Open(filepath.Join(p.Files, begun))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if left, err := FilesLeft(p, true, true); err != nil || !slices.Equal(left, []string{begun}) {
		t.Errorf("%q is left, %v", left, err)
	}
}

func TestAFolderIsAStrayToo(t *testing.T) {
	p := written(t, true)
	if err := os.MkdirAll(filepath.Join(p.Files, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if left, err := FilesLeft(p, true, true); err != nil || !slices.Equal(left, []string{"folder"}) {
		t.Errorf("%q is left, %v", left, err)
	}
}
