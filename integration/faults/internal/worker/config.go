//go:build unix

// Package worker is the process that does the work of a fault run: it takes locks and changes what they protect, writes
// down what it did and saw, and obeys orders that hurt it.
package worker

import (
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
)

// Mode says with which lock, and whether with guards.
type Mode string

// The modes.
const (
	Guarded   Mode = "guarded"   // this module's lock and its guards
	Unguarded Mode = "unguarded" // its lock alone
	Etcd      Mode = "etcd"      // concurrency.Mutex of etcd's client, no guards
)

// Config is all that a worker is told at its start, as JSON.
type Config struct {
	Who       string // its name in the history
	Mode      Mode
	Seed      uint64
	Endpoints []string // of etcd, for locks; through proxies of its own
	Namespace string
	TTL       time.Duration
	Places    store.Places
	Resources []string
	History   string // the file to write
}
