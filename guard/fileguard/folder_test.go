package fileguard

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fencedlock/fencedlock/guard"
)

// folding is a disk that knows the marks' folder by another name as well, as one does that folds cases or passes over
// characters that nobody sees: https://nvd.nist.gov/vuln/detail/CVE-2014-9390
// And it is mounted at a second place.
type folding struct{ disk }

const (
	folded  = ".fenced\u200clock"
	mounted = "links/mounted"
)

func fold(name string) string { return strings.ReplaceAll(name, folded, marksDir) }

func (d folding) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	if name == mounted {
		name = marksDir
	}
	return d.disk.OpenFile(fold(name), flag, perm)
}

func (d folding) Lstat(name string) (fs.FileInfo, error) { return d.disk.Lstat(fold(name)) }

// A guarded name that leads to a mark would let a holder of one resource replace or remove the mark of another, and with it
// the memory of who is late.
func TestNoNameLeadsToAMark(t *testing.T) {
	base := path.Base(markName("victim"))
	for name, target := range map[string]struct {
		name  string
		inner bool // the marks are those of a guard on the folder sub
	}{
		"by a link":                               {"link/" + base, false},
		"by a link to a link":                     {"links/link/" + base, false},
		"by a link of the inner folder":           {"sub/out/" + base, false},
		"of the folder further in":                {"sub/" + marksDir + "/" + base, true},
		"of the folder further in, in capitals":   {"sub/.FENCEDLOCK/" + base, true},
		"of the folder further in, by a link":     {"inner/" + base, true},
		"where names are folded":                  {folded + "/" + base, false},
		"by a second mount":                       {mounted + "/" + base, false},
		"of the folder further in, where folded":  {"sub/" + folded + "/" + base, true},
		"of the folder further in, link to there": {"sub/self/" + marksDir + "/" + base, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			sub := filepath.Join(dir, "sub")
			for _, f := range []string{sub, filepath.Join(dir, "links"), filepath.Join(dir, mounted)} {
				if err := os.Mkdir(f, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for link, to := range map[string]string{
				"link": marksDir, "links/link": "../link", "sub/out": "../" + marksDir, "inner": "sub/" + marksDir, "sub/self": ".",
			} {
				if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
					t.Fatal(err)
				}
			}
			outer, err := newGuard(dir, nil, func() (disk, error) { d, err := openDisk(dir); return folding{d}, err }, fileSystemOf)
			if err != nil {
				t.Fatal(err)
			}
			guarded := dir
			if target.inner {
				guarded = sub
			}
			if err := mustNew(t, guarded, nil).Seal(t.Context(), "victim", 9); err != nil {
				t.Fatal(err)
			}
			for op, err := range map[string]error{
				"WriteFile": outer.WriteFile(t.Context(), account, 5, target.name, encodeMark("victim", 1), 0o600),
				"Remove":    outer.Remove(t.Context(), account, 5, target.name),
			} {
				if err == nil || errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "marks") {
					t.Errorf("%s: %v; want an error about marks", op, err)
				}
			}
			if err := mustNew(t, guarded, nil).WriteFile(t.Context(), "victim", 3, "data", []byte("late"), 0o600); !errors.Is(err, guard.ErrStale) {
				t.Errorf("a late write: %v; want ErrStale", err)
			}
		})
	}
}

// A guard on the marks of another would take them for files.
func TestFolderOfMarksCannotBeGuarded(t *testing.T) {
	dir := memoryDir(t)
	mustNew(t, dir, nil)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, marksDir), link); err != nil {
		t.Fatal(err)
	}
	for _, marks := range []string{filepath.Join(dir, marksDir), link} {
		if _, err := New(marks, nil); err == nil || !strings.Contains(err.Error(), "holds the marks") {
			t.Errorf("New(%s): %v; want an error about the marks", marks, err)
		}
	}
}

// A file is on the disk when the folder is synced that it was put into, which need not be the one that had the name when
// the write began. Where there is no renaming into an open folder, an error is as good.
func TestWriteIsDurableInAFolderThatWasReplacedMeanwhile(t *testing.T) {
	dir := memoryDir(t)
	sub, old := filepath.Join(dir, "sub"), filepath.Join(dir, "old")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	swap := func() error { return errors.Join(os.Rename(sub, old), os.Mkdir(sub, 0o700)) }
	swapAt := ""
	synced := make(map[string]bool) // which of the folders, by the name that it has then
	g, err := newGuard(dir, nil, func() (disk, error) {
		d, err := openDisk(dir)
		return hooked{syncs{d, func(info fs.FileInfo) {
			for _, f := range []string{sub, old} {
				if there, err := os.Stat(f); err == nil && os.SameFile(there, info) {
					synced[f] = true
				}
			}
		}}, func(op, name string) error {
			if name == "sub/x" && op == swapAt {
				return swap()
			}
			return nil
		}}, err
	}, fileSystemOf)
	if err != nil {
		t.Fatal(err)
	}
	for where, c := range map[string]struct {
		op string // at which the folder is replaced, "" while fn runs
		in string // where the file is then
	}{"while fn runs": {"", sub}, "under the lock": {"rename", old}} {
		t.Run(where, func(t *testing.T) {
			clear(synced)
			swapAt = c.op
			if err := os.RemoveAll(old); err != nil {
				t.Fatal(err)
			}
			err := g.Write(t.Context(), account, 5, "sub/x", 0o600, func(w io.Writer) error {
				if c.op == "" {
					return swap()
				}
				return nil
			})
			_, there := os.Stat(filepath.Join(c.in, "x"))
			if refused := err != nil && c.op != "" && runtime.GOOS != "linux"; !refused && (err != nil || there != nil || !synced[c.in]) {
				t.Errorf("Write = %v; in %s: %v, synced: %v", err, c.in, there, synced)
			}
			if err := os.RemoveAll(filepath.Join(sub, "x")); err != nil {
				t.Fatal(err)
			}
		})
	}
	swapAt = "remove"
	clear(synced)
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(sub, "x"), "x")
	err = g.Remove(t.Context(), account, 5, "sub/x")
	_, there := os.Stat(filepath.Join(old, "x"))
	if refused := err != nil && runtime.GOOS != "linux"; !refused && (err != nil || !errors.Is(there, fs.ErrNotExist) || !synced[old]) {
		t.Errorf("Remove = %v; it is there: %v, synced: %v", err, there, synced)
	}
}

// syncs tells which files and folders are synced.
type syncs struct {
	disk
	tell func(fs.FileInfo)
}

func (d syncs) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	f, err := d.disk.OpenFile(name, flag, perm)
	return syncedFile{f, d.tell}, err
}

type syncedFile struct {
	file
	tell func(fs.FileInfo)
}

func (f syncedFile) Sync() error {
	info, err := f.Stat()
	if err == nil {
		f.tell(info)
	}
	return errors.Join(err, f.file.Sync())
}
