package fileguard

import "fmt"

// fileSystemType is the kind of file system that a folder is on.
type fileSystemType struct {
	name    string
	network bool // or it may be one
}

// refuseNetwork returns why path is on no disk for a guard. What cannot be found out is refused, too.
func (g *Guard) refuseNetwork(of func(path string) (fileSystemType, error), path string) error {
	if g.opts.AllowNetworkFS {
		return nil
	}
	t, err := of(path)
	if err != nil {
		return fmt.Errorf("fileguard: cannot tell whether %s is on a local disk: %w", path, err)
	}
	if t.network {
		return fmt.Errorf("fileguard: %s is on %s, where a lock can be lost with the connection while its holder goes on, and what was "+
			"synced can be lost with the server, so that a late writer gets in: use a local disk, or set Options.AllowNetworkFS and bear that", path, t.name)
	}
	return nil
}
