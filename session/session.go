// Package session keeps an etcd lease alive and says, from this machine's own
// clock, until when it can be trusted: never longer than the server does.
//
// That rests on three things. The deadline is counted from the moment when the
// acknowledged renewal was sent, not from when its reply arrived. It ends a
// margin early, for scheduling and for clocks that run at different rates (one
// per cent; their absolute time plays no part, and the wall clock is never
// read). And the clock goes on while the machine sleeps.
//
// What it cannot do: a process that is paused does not notice the deadline
// passing until it runs again, and a request may be under way at that moment.
// [Session.Err] is right from the first instruction after the pause; the
// request under way is what the guards are for, see the package guard.
package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fencedlock/fencedlock/internal/lease"
)

var (
	// ErrExpired is why a session is over that etcd may have given up: no
	// renewal was acknowledged in time, the lease is gone from the server, the
	// client was closed, or etcd answered from an older revision than before.
	// The error found wraps it and says which.
	ErrExpired = lease.ErrExpired

	// ErrClosed is why a session is over after Close.
	ErrClosed = lease.ErrClosed
)

const (
	defaultTTL       = 15 * time.Second
	maxTTL           = 365 * 24 * time.Hour
	defaultNamespace = "/fencedlock/"
	maxText          = 512
)

// Options says how a session is made. The zero value of a field means its
// default; what makes no sense is refused by New with an error that names the
// field.
type Options struct {
	// TTL is the length of the lease: how long others wait for the locks of a
	// process that died. It is rounded up to whole seconds; the default is
	// 15 s. The server may grant more (etcd's smallest is 2 s with its default
	// election timeout); [Session.TTL] tells. It is best several times as long
	// as the longest pause that is to be survived, and as a critical section.
	TTL time.Duration

	// Owner is a label for people, stored with every lock, at most 512 bytes.
	// The default is the host's name and the process id. Nothing is ever
	// decided by it: two processes with one label are two.
	Owner string

	// Namespace is the prefix of all keys; the default is "/fencedlock/". It
	// ends in "/" and holds no "%". Locks of one name in two namespaces have
	// nothing to do with each other.
	Namespace string

	// Logger gets warnings, such as renewals that failed and are tried again.
	// nil is silent; the etcd client has a Logger of its own in its Config.
	Logger *zap.Logger
}

// A Session is one etcd lease, kept alive in the background from New until
// Close or until it can no longer be trusted. All locks taken with it live and
// die with it. It is safe for concurrent use, and one session serves any number
// of locks.
//
// A session that is over stays over: a program that goes on makes a new one, and
// takes its locks anew, with new tokens.
type Session struct {
	lease *lease.Lease
}

// New makes a session on c, which the caller keeps and closes after the session.
// nil Options mean the defaults. The client may be wrapped by
// go.etcd.io/etcd/client/v3/namespace if its KV, Watcher and Lease all are.
//
// Set DialKeepAliveTime and DialKeepAliveTimeout in the client's Config, to a few
// seconds each. Without them the client keeps a connection that has gone silent,
// and every other request may wait on it until its attempt is given up.
//
// ctx bounds the call only, not the session. Without a deadline of its own the
// call gives up after 10 s. When it fails, a lease that the server may have
// granted is revoked in the background, in one attempt; else it lapses by
// itself.
//
// Errors: one that names the field for bad options; the end of ctx joined with
// what went wrong last, which names the endpoints; etcd's own for what retrying
// cannot cure. Unavailability is retried until ctx ends.
func New(ctx context.Context, c *clientv3.Client, o *Options) (*Session, error) {
	cfg, err := config(c, o)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("session: New: %w", err)
	}
	l, err := lease.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Session{lease: l}, nil
}

func config(c *clientv3.Client, o *Options) (lease.Config, error) {
	if o == nil {
		o = &Options{}
	}
	cfg := lease.Config{Client: c, TTL: o.TTL, Owner: o.Owner, Namespace: o.Namespace, Logger: o.Logger}
	switch {
	case c == nil:
		return cfg, errors.New("session: the etcd client is nil")
	case c.ActiveConnection() == nil:
		return cfg, errors.New("session: the etcd client has no connection; make it with clientv3.New")
	case c.Ctx().Err() != nil:
		return cfg, errors.New("session: the etcd client is closed")
	case o.TTL < 0:
		return cfg, fmt.Errorf("session: Options.TTL is %v; it must be positive, or 0 for the default of %v", o.TTL, defaultTTL)
	case o.TTL > 0 && o.TTL < time.Millisecond:
		return cfg, fmt.Errorf("session: Options.TTL is %v; a unit such as time.Second seems to be missing", o.TTL)
	case o.TTL > maxTTL:
		return cfg, fmt.Errorf("session: Options.TTL is %v; the most is %v", o.TTL, maxTTL)
	case o.TTL == 0:
		cfg.TTL = defaultTTL
	default:
		cfg.TTL = (o.TTL + time.Second - 1).Truncate(time.Second)
	}
	if len(o.Owner) > maxText || !utf8.ValidString(o.Owner) {
		return cfg, fmt.Errorf("session: Options.Owner is %.60q; it must be valid UTF-8 of at most %d bytes", o.Owner, maxText)
	}
	if cfg.Owner == "" {
		cfg.Owner = defaultOwner()
	}
	if cfg.Namespace == "" {
		cfg.Namespace = defaultNamespace
	}
	if err := lease.CheckNamespace(cfg.Namespace); err != nil {
		return cfg, fmt.Errorf("session: Options.Namespace: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return cfg, nil
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Context ends when the lease can no longer be trusted, at its deadline at the
// latest; context.Cause then wraps [ErrExpired] or [ErrClosed]. After a pause of
// the process it may end a moment late (half a second after the machine slept):
// [Session.Err] does not.
func (s *Session) Context() context.Context {
	if !s.made() {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errNotMade)
		return ctx
	}
	return s.lease.Context()
}

// Err returns nil while the lease can be trusted, else an error that wraps
// [ErrExpired] or [ErrClosed] and says why. It looks at the clock and does no
// I/O, so it is right even before Context has been woken.
func (s *Session) Err() error {
	if !s.made() {
		return errNotMade
	}
	return s.lease.Err()
}

// Remaining returns how long this process may still trust the lease if no
// renewal succeeds any more, 0 when the session is over. It is computed at the
// call and is not to be kept.
func (s *Session) Remaining() time.Duration {
	if !s.made() {
		return 0
	}
	return s.lease.Remaining()
}

// TTL returns the length of the lease as the server granted it.
func (s *Session) TTL() time.Duration {
	if !s.made() {
		return 0
	}
	return s.lease.TTL()
}

// Lease returns the number of the lease in etcd.
func (s *Session) Lease() clientv3.LeaseID {
	if !s.made() {
		return clientv3.NoLease
	}
	return s.lease.ID()
}

// Client returns the client that the session was made with.
func (s *Session) Client() *clientv3.Client {
	if !s.made() {
		return nil
	}
	return s.lease.Client()
}

// Close ends Context, then revokes the lease: every lock of the session is free
// at once. It tries for as long as the server may keep the lease, since after
// that there is nothing left to revoke; a session that had expired gets one
// attempt. When Close returns, the session has no goroutine left.
//
// An error says that the lease was not confirmed as revoked, and when its locks
// will be free by themselves. Close may be called more than once and from several
// goroutines; all calls return the same.
func (s *Session) Close() error {
	if !s.made() {
		return errNotMade
	}
	return s.lease.Close()
}

// Internal is for the packages of this module; its type cannot be imported by
// others.
func (s *Session) Internal() *lease.Lease {
	if s == nil {
		return nil
	}
	return s.lease
}

// errNotMade is the error of a Session that did not come from New: such a one is
// over, and nothing panics on it.
var errNotMade = fmt.Errorf("%w: it was not made with session.New", ErrClosed)

func (s *Session) made() bool { return s != nil && s.lease != nil }
