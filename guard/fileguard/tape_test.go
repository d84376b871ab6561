package fileguard

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// tape records what is done to a real disk, so that every state can be told which a power failure may leave: what was
// written to a file is certain once the file was synced, and a name is where it was put once its folder was synced; before
// that each change is there or not, whatever was done after it.
type tape struct {
	events []event
	inodes map[string]int // which file has a name now
	last   int            // the number of the last file that was made
}

// event is one change, or one thing that makes changes certain.
type event struct {
	kind  kind
	name  string // of an entry or a synced folder
	inode int    // 0 in an entry: the name is taken away
	data  []byte // written to the inode, behind what it has
	lost  bool   // no later sync of the folder makes the entry certain; set while states are made
}

// errKilled is what a disk says to a process that is not there any more, EIO what it says when it fails.
var errKilled = errors.New("killed")

type kind int

const (
	entry kind = iota
	write
	truncate
	syncFile
	syncFailed // what was not certain may be dropped, and counts as clean: a later sync says nothing about it
	syncFolder
	reported // the guard has returned, see story
)

const folderInode = -1

func newTape() *tape { return &tape{inodes: make(map[string]int)} }

func (t *tape) add(e event) { t.events = append(t.events, e) }

func (t *tape) put(name string, inode int) {
	t.add(event{kind: entry, name: name, inode: inode})
	if t.inodes[name] = inode; inode == 0 {
		delete(t.inodes, name)
	}
}

// guard returns a new guard, as that of a new process, on dir and the tape. before may let a call fail, which is then
// not recorded; nil: none fails.
func (t *tape) guard(tb testing.TB, dir string, before func(op, name string) error) (*Guard, error) {
	tb.Helper()
	if before == nil {
		before = func(string, string) error { return nil }
	}
	return newGuard(dir, nil, func() (disk, error) {
		d, err := openDisk(dir)
		return hooked{recorder{d, t}, func(op, name string) error {
			err := before(op, name)
			// File systems with a journal stop when a folder cannot be synced; the marks do not even rely on that.
			if inode := t.inodes[name]; errors.Is(err, syscall.EIO) && op == "sync" && (inode > 0 || name == marksDir) {
				t.add(event{kind: syncFailed, name: name, inode: inode})
			}
			return err
		}}, err
	}, fileSystemOf)
}

type recorder struct {
	disk
	t *tape
}

func (r recorder) OpenFile(name string, flag int, perm fs.FileMode) (file, error) {
	f, err := r.disk.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	switch inode, there := r.t.inodes[name]; {
	case flag&os.O_CREATE != 0 && !there:
		r.t.last++
		r.t.put(name, r.t.last)
	case flag&os.O_TRUNC != 0:
		r.t.add(event{kind: truncate, inode: inode})
	}
	return recorded{f, name, r.t.inodes[name], r.t}, nil
}

func (r recorder) Mkdir(name string, perm fs.FileMode) error {
	err := r.disk.Mkdir(name, perm)
	if err == nil {
		r.t.put(name, folderInode)
	}
	return err
}

func (r recorder) Rename(from, to string, folder file) error {
	err := r.disk.Rename(from, to, folder)
	if err == nil {
		r.t.put(to, r.t.inodes[from])
		r.t.put(from, 0)
	}
	return err
}

func (r recorder) Remove(name string) error {
	err := r.disk.Remove(name)
	if err == nil {
		r.t.put(name, 0)
	}
	return err
}

func (r recorder) RemoveFrom(folder file, name string) error {
	err := r.disk.RemoveFrom(folder, name)
	if err == nil {
		r.t.put(name, 0)
	}
	return err
}

type recorded struct {
	file
	name  string
	inode int // 0, folderInode: a folder
	t     *tape
}

func (f recorded) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	f.t.add(event{kind: write, inode: f.inode, data: slices.Clone(p[:n])})
	return n, err
}

func (f recorded) Sync() error {
	err := f.file.Sync()
	switch {
	case err != nil:
	case f.inode > 0:
		f.t.add(event{kind: syncFile, inode: f.inode})
	default:
		f.t.add(event{kind: syncFolder, name: f.name})
	}
	return err
}

// afterPowerLoss returns the states in which events may leave the disk: for each, the content by name, in which the
// marks' folder is "<folder>". Locks and unfinished contents are as they were last: they decide nothing.
func afterPowerLoss(events []event) []map[string]string {
	durable, latest := make(map[int]string), make(map[int]string) // contents by inode
	clean := make(map[int]bool)
	certain := make(map[string]int) // names
	var open []event                // entries that may be there or not
	for _, e := range events {
		switch e.kind {
		case write:
			latest[e.inode] += string(e.data)
			clean[e.inode] = false
		case truncate:
			latest[e.inode] = ""
			clean[e.inode] = false
		case syncFile:
			if !clean[e.inode] {
				durable[e.inode] = latest[e.inode]
			}
			clean[e.inode] = true
		case syncFailed:
			clean[e.inode] = true
			for i := range open {
				open[i].lost = open[i].lost || e.inode == folderInode && path.Dir(open[i].name) == e.name
			}
		case entry:
			if base := path.Base(e.name); strings.HasPrefix(base, tempPrefix) || path.Ext(base) == ".lock" {
				certain[e.name] = e.inode
			} else {
				open = append(open, e)
			}
		case syncFolder:
			var rest []event
			for _, o := range open {
				if o.lost || path.Dir(o.name) != e.name {
					rest = append(rest, o)
					continue
				}
				certain[o.name] = o.inode
				rest = slices.DeleteFunc(rest, func(earlier event) bool { return earlier.name == o.name })
			}
			open = rest
		}
	}
	var states []map[string]string
	for chosen := range 1 << len(open) {
		names := maps.Clone(certain)
		for i, o := range open {
			if chosen>>i&1 == 1 {
				names[o.name] = o.inode
			}
		}
		states = append(states, contents(names, durable, latest)...)
	}
	return states
}

// contents returns the states that names allow: a file that is not synced may hold what was synced, what was written, NUL
// bytes in its place, half of it, or nothing.
func contents(names map[string]int, durable, latest map[int]string) []map[string]string {
	states := []map[string]string{{}}
	first := make(map[int]string)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		inode := names[name]
		if inode == 0 || path.Dir(name) == marksDir && names[marksDir] == 0 {
			continue
		}
		options := []string{latest[inode]}
		switch was := durable[inode]; {
		case inode == folderInode:
			options = []string{"<folder>"}
		case first[inode] != "":
			options = []string{linkTo + first[inode]}
		case strings.HasPrefix(path.Base(name), tempPrefix):
		case was != latest[inode]:
			n := len(latest[inode])
			options = append(options, was, strings.Repeat("\x00", n), latest[inode][:n/2], "")
			slices.Sort(options)
			options = slices.Compact(options)
		}
		if first[inode] == "" {
			first[inode] = name
		}
		var next []map[string]string
		for _, s := range states {
			for _, o := range options {
				with := maps.Clone(s)
				with[name] = o
				next = append(next, with)
			}
		}
		states = next
	}
	return states
}

// linkTo begins the content of a name that belongs to the same file as another.
const linkTo = "<the same file as> "

// restore makes dir a folder in the given state.
func restore(t testing.TB, dir string, state map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(state)) { // the folder of marks comes before what is in it
		if name == marksDir {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if to, ok := strings.CutPrefix(state[name], linkTo); ok {
			if err := os.Link(filepath.Join(dir, to), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		mustWrite(t, filepath.Join(dir, name), state[name])
	}
}
