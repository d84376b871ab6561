// Package fileguard guards files in a folder of a local disk: under a lock of the operating system, the mark of the
// resource is compared with the writer's token and raised, and then the file is replaced as a whole, or removed. A writer
// with a lower token is refused, whichever process it is in.
//
//	g, err := fileguard.New("/var/lib/accounts", nil)
//	err = g.WriteFile(ctx, resource, tok, "account-1.json", data, 0o644)
//
// What it guarantees: once a call with a token has returned nil, what it did is on the disk, and no call with a lower
// token for the same resource changes anything any more, whatever pauses, kills or power failures there are. After a
// crash a file is the old one or the new one, never a part of either, and a mark is never lower than one that was reported;
// on disks that fail, what [Guard.Highest] has reported is excepted.
// Readers need no guard: they open the file and see one whole content.
//
// It rests on flock, on rename being atomic, and on fsync: each content is synced before it is renamed into place, and the
// folder after it; the mark before the data. So it is for local disks of Linux and macOS that keep what they have
// acknowledged. On a network file system [New] refuses to work, and so it does on systems that cannot sync a folder, such
// as Windows. Tested on Linux, ext4 and tmpfs; on macOS it is built and not tested.
//
// What it does not: writes that do not go through a Guard are not guarded, and a file that two resources write is guarded
// by neither. A holder that is paused inside the lock, for which flock has no time limit, blocks its successors until it goes
// on or is killed; their wait is bounded by [Options].MaxWait, and the error names the process. Marks are as durable as the
// folder: whoever restores it from a copy restores the marks of that time. A token is no secret and gives no rights.
//
// Marks and locks are in the folder ".fencedlock" of the guarded folder, two small files for each resource, which stay for
// good: deleting them lets late writers in.
package fileguard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/guard"
)

// defaultMaxWait is longer than a write of some hundred megabytes takes, and shorter than the usual lease.
const defaultMaxWait = 10 * time.Second

// Options are the choices of a Guard. The zero value of each field is its default.
type Options struct {
	// MaxWait bounds how long a call waits for others that have the same resource's lock, beside the call's context;
	// default 10 s. After it the call gives up with [ErrBusy]. It cannot be negative.
	MaxWait time.Duration

	// AllowNetworkFS lets New accept a folder on a network or FUSE file system. There a lock can be lost with the connection
	// while its holder goes on, two machines can both have it, and what was synced can be lost, so that the guarantees of
	// this package are wishes.
	AllowNetworkFS bool

	// OnOutcome is called once at the end of each WriteFile, Write, Remove, Seal and Repair with its arguments (Repair's
	// floor as the token) and the error it is about to return. It must return quickly: the caller waits. nil: nothing is
	// called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

// Guard guards the files of one folder. It is safe for concurrent use, and any number of Guards, in any number of
// processes of one machine, work together on the same folder. [New] makes one; the methods of a
// zero or nil Guard return an error. It holds nothing open between calls, so there is nothing to close; it remembers a few
// dozen bytes for each resource.
type Guard struct {
	dir  string
	opts Options
	open func() (disk, error)

	mu     sync.Mutex
	synced map[string]guard.Token // by resource, the mark that this Guard has seen through to the disk; guarded by mu
}

var _ guard.Sealer = (*Guard)(nil)

// New returns a guard for the files in dir, which must exist and be named: "" is refused, "." is the current folder. It
// makes the folder of marks there if it is missing, and removes what writers that were killed have left in it; what others
// are writing at the moment stays. nil Options are the defaults.
//
// It refuses a dir on a network or FUSE file system, see [Options].AllowNetworkFS, and systems other than Linux and macOS.
// It goes by the kinds of file systems that it knows; an overlay, as of a container, counts as a local disk, and what it lies
// on is not seen. It also refuses a dir that holds the marks of another guard.
func New(dir string, o *Options) (*Guard, error) {
	if dir == "" { // an unset variable, which would become the current folder
		return nil, errors.New(`fileguard: no folder was given; use "." for the current one`)
	}
	abs, err := filepath.Abs(dir) // the program may change its folder later
	if err != nil {
		return nil, fmt.Errorf("fileguard: %w", err)
	}
	return newGuard(abs, o, func() (disk, error) { return openDisk(abs) }, fileSystemOf)
}

func newGuard(dir string, o *Options, open func() (disk, error), fileSystem func(path string) (fileSystemType, error)) (*Guard, error) {
	if !supported {
		return nil, errors.New("fileguard: this system cannot sync a folder to disk, so a write that was reported could be lost; use Linux or macOS")
	}
	if o == nil {
		o = &Options{}
	}
	g := &Guard{dir: dir, opts: *o, open: open, synced: make(map[string]guard.Token)}
	switch {
	case o.MaxWait < 0:
		return nil, fmt.Errorf("fileguard: Options.MaxWait: %v is negative; 0 is the default of %v", o.MaxWait, defaultMaxWait)
	case o.MaxWait == 0:
		g.opts.MaxWait = defaultMaxWait
	}
	d, err := open()
	if err != nil {
		return nil, fmt.Errorf("fileguard: the folder to guard: %w", err)
	}
	defer d.Close()
	if err := refuseMarksOfOthers(dir); err != nil {
		return nil, err
	}
	// Before anything is made there; the folder of marks can be a mount of its own.
	if err := g.refuseNetwork(fileSystem, dir); err != nil {
		return nil, err
	}
	if err := prepare(d); err != nil {
		return nil, fmt.Errorf("fileguard: %s: %w", g.path(marksDir), err)
	}
	if err := g.refuseNetwork(fileSystem, g.path(marksDir)); err != nil {
		return nil, err
	}
	if err := removeLeftovers(d); err != nil {
		return nil, fmt.Errorf("fileguard: removing what killed writers left in %s: %w", g.path(marksDir), err)
	}
	return g, nil
}

// prepare makes the folder of marks, and makes it durable: the marks are lost with it.
func prepare(d disk) error {
	if err := d.Mkdir(marksDir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := d.Lstat(marksDir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("it is %v; it must be a folder, and no link to one", info.Mode())
	}
	top, err := d.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer top.Close()
	return top.Sync() // also if it was there already: whoever made it may have been killed before this
}

// path is for messages, and for what looks at the real file.
func (g *Guard) path(name string) string { return filepath.Join(g.dir, name) }

// made returns an error for a Guard that New did not make.
func (g *Guard) made() error {
	if g == nil || g.open == nil {
		return errors.New("fileguard: this Guard was not made by New")
	}
	return nil
}

// report hands an operation's outcome to the user.
func (g *Guard) report(ctx context.Context, resource string, tok guard.Token, err error) {
	if g != nil && g.opts.OnOutcome != nil {
		g.opts.OnOutcome(ctx, resource, tok, err)
	}
}
