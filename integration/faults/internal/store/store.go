//go:build unix

// Package store has the storages of a fault run behind one face: each holds one history.Doc for a resource, and changes it
// under a guard or without.
//
// A write has a part that replaces what its holder has read, and a part that adds to whatever is there, so that every
// violation leaves its own trace:
//
//   - The list is replaced as a whole, everywhere. A holder that comes late puts the one that it has read, and its own entry,
//     in place of what others wrote meanwhile: their entries are missing.
//   - The journal gets one more entry, without a look at those that are there, and keeps all. A write that was carried out
//     twice is in it twice, one that was overwritten is in it and not in the list, and one that is in the list alone was
//     half done.
//   - The accounts get an amount more, or less. What was carried out twice has moved money twice, and the accounts
//     are not what the list says; what was half done has a wrong sum.
//
// Where the storage cannot add, some of this is missing. etcd can add no numbers: its accounts are replaced, and the journal
// has a key for each write, whose version counts how often it was put. Objects and files are replaced in one piece: there is no
// journal, and a write that is carried out twice at once does no harm that could be seen. One that comes again later
// takes others' entries from the list.
package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

// Places says where the storages are. It is handed to workers as JSON.
type Places struct {
	SQLite   string // data source names
	Postgres string
	Pgx      string // the same database, for pgxguard
	MariaDB  string
	Redis    string   // host:port
	S3       string   // host:port
	GCS      string   // host:port
	Azure    string   // host:port
	Etcd     []string // endpoints
	Files    string   // a folder
	Service  string   // the data source name of the service's database
	HTTP     string   // its URL
	GRPC     string   // its host:port
}

// Store is one storage. It is for one goroutine at a time.
type Store interface {
	// Seal raises the mark. Without a guard it does nothing.
	Seal(ctx context.Context, resource string, tok guard.Token) error
	// Highest reads the mark.
	Highest(ctx context.Context, resource string) (guard.Token, error)
	// Read returns the Doc.
	Read(ctx context.Context, resource string) (history.Doc, error)
	// Write changes what was read.
	Write(ctx context.Context, resource string, tok guard.Token, w Write) error
	// Journal returns every write that was carried out, each as often as it was, in that order; nil: the storage keeps none.
	Journal(ctx context.Context, resource string) ([]string, error)
	// Close ends all connections.
	Close() error
}

// Write is what is to be written.
type Write struct {
	Doc    history.Doc    // the new one; the last entry of its list is the write's own
	Change history.Change // what of the accounts is another than before
	// Inside is called once in the middle of the write, unless that is refused before; nil: nothing is called. Where that is
	// depends on what the storage lets its user into:
	//
	//   - SQL: in the transaction, after the check.
	//   - Objects, HTTP, gRPC: when the request is half sent, which bears the condition or the token; what it is checked
	//     against is looked at when all of it has come.
	//   - Redis, etcd: likewise; check and write are one step of the server, into which nobody is let.
	//   - Files: when half of the content is written, which is before the check: the rest is one step without its user.
	Inside func() `json:"-"`
}

// op is the write's own entry.
func (w Write) op() string { return w.Doc.List[len(w.Doc.List)-1] }

func (w Write) inside() {
	if w.Inside != nil {
		w.Inside()
	}
}

// added is what the write adds to each account that it changes.
func (w Write) added() map[int]int {
	return map[int]int{w.Change.From: -w.Change.Amount, w.Change.To: w.Change.Amount}
}

// Kind is a storage under one guard.
type Kind struct {
	Name string // begins the names of its resources
	// Init makes the resource hold history.NewDoc. It is called once, before all workers.
	Init func(ctx context.Context, p Places, resource string) error
	// Open connects to it. Without guarded, writes go past the guard.
	Open func(ctx context.Context, p Places, guarded bool) (Store, error)
}

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{
		sqlite, postgres, pgxKind, mariadb, redisKind, s3Kind, gcsKind, azureKind, etcdKind, fileKind, httpKind, grpcKind,
	}
}

// Of returns the kind that a resource's name begins with.
func Of(resource string) (Kind, error) {
	for _, k := range Kinds() {
		if k.Resource() == resource {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("store: there is no resource %q", resource)
}

// Resource is the name of the kind's one resource, and of its lock.
func (k Kind) Resource() string { return k.Name + "-ledger" }

// OutcomeOf says what the error of a write says about it.
func OutcomeOf(err error) (o history.Outcome, highest guard.Token) {
	var stale *guard.StaleError
	switch {
	case err == nil:
		return history.Applied, 0
	case errors.Is(err, guard.ErrUnknown):
		return history.Unknown, 0
	case errors.As(err, &stale):
		return history.Stale, stale.Highest
	}
	return history.Failed, 0
}

// unguarded is the error of a write that no guard has looked at: nobody knows.
func unguarded(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
}
