package fileguard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/fencedlock/fencedlock/guard"
)

// readMark returns 0 if there is no mark. One that is there and cannot be read is an error, never 0, and so is one that is
// lower than this Guard knows.
func (g *Guard) readMark(d disk, resource string) (guard.Token, error) {
	known := g.syncedMark(resource) // before the look, since it grows meanwhile
	tok, err := lookUpMark(d, resource)
	if err == nil && tok < known {
		err = fmt.Errorf("it was %d, and now it is %d (0: absent); somebody has removed or replaced it", int64(known), int64(tok))
	}
	if err != nil {
		return 0, &MarkError{Resource: resource, Path: g.path(markName(resource)), Err: err}
	}
	return tok, nil
}

func lookUpMark(d disk, resource string) (guard.Token, error) {
	name := markName(resource)
	there, err := isFile(d, name)
	if err != nil {
		return 0, err
	}
	if !there {
		// Without its folder it is not a mark that was never made, but one that is lost.
		if _, err := d.Lstat(marksDir); err != nil {
			return 0, fmt.Errorf("the folder of marks is gone: %w", err)
		}
		return 0, nil
	}
	f, err := d.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, longestMark))
	if err != nil {
		return 0, err
	}
	return decodeMark(resource, content)
}

// writeMark makes tok the mark, durably. unknown tells that an error came too late to say that the old mark stands. Only
// whoever has the resource's lock calls it.
func (g *Guard) writeMark(d disk, resource string, tok guard.Token) (unknown bool, err error) {
	folder, err := d.OpenFile(marksDir, openFolder, 0)
	if err != nil {
		return false, err
	}
	defer folder.Close()
	name := markName(resource)
	fresh := name + ".new" // under the lock one name is enough
	if err := writeSynced(d, fresh, encodeMark(resource, tok)); err != nil {
		return false, err
	}
	if unknown, err = replace(d, fresh, name, folder); err != nil {
		return unknown, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.synced[resource] = tok
	return false, nil
}

func (g *Guard) syncedMark(resource string) guard.Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.synced[resource]
}

// writeSynced makes a new file. What a killed writer has left there is taken away, and not overwritten: after a power failure
// in the middle of a rename it can be the same file as the mark, under its earlier name.
func writeSynced(d disk, name string, content []byte) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

// replace gives a synced file its final name, in the open folder, and syncs that. unknown tells that an error came too
// late to say that nothing has changed.
func replace(d disk, from, to string, folder file) (unknown bool, err error) {
	if err := d.Rename(from, to, folder); err != nil {
		_, gone := d.Lstat(from)
		return gone != nil, err
	}
	if err := folder.Sync(); err != nil {
		return true, err
	}
	return false, nil
}
