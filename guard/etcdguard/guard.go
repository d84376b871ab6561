// Package etcdguard guards data in etcd: in the transaction that writes, the mark of the resource is compared and raised,
// and a writer with a token lower than the mark is refused.
//
//	g, err := etcdguard.New(client, nil)
//	err = g.Do(ctx, resource, tok, clientv3.OpPut("config/page", text))
//
// What it guarantees: once a write with a token was applied, none with a lower token for the same resource is, whatever
// pauses, retries, doubled or lost messages there are; and each write is applied once or not at all. It rests on etcd's
// transactions alone. The lock that hands out the tokens may live in another cluster than the data.
//
// Where it ends: writes that do not pass [Guard.Do], [Guard.Txn] or [Guard.Seal] are not guarded. Marks are as durable as
// the data beside them: an etcd that is restored from a backup has the marks of then, and takes the tokens of then. Marks
// have no lease and are never deleted; who deletes one opens its resource to late writers. A token is no secret and gives
// no rights.
//
// The mark is the key Options.Prefix + resource, in which "%" and "/" of the resource are "%25" and "%2F". Each guarded
// write puts it, and compares that it is what this Guard saw last. So writes of one resource run one after the other; those
// of one Guard wait for their turn in the process, those of several Guards repeat a lost race. Since each write leaves its
// own number in the mark, a transaction whose reply was lost can be sent again: it is found to have been applied, or is
// applied then, and what may still be under way fails. That holds for repetitions that the client makes unseen, too. A mark
// that is deleted or put by hand while a write is under way is noticed, and the outcome then unknown.
//
// Where lock and data are in one cluster, [IfHeld] is the smaller means, for transactions of your own.
//
// Tested with etcd 3.7.
package etcdguard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
)

// Options are the choices of a Guard. The zero value of each field is its default.
type Options struct {
	// Prefix is what the keys of marks begin with, default "/fencedlock-marks/". It ends in "/" and has at most 512 bytes.
	// Guards with different prefixes have different marks, also where one prefix begins with the other, so every program that
	// writes a resource has the same one.
	// Writers need the right to read and write these keys, beside their own.
	Prefix string

	// MaxOps is how many operations one transaction may have, the mark's included, default 128, at least 2. Set it to etcd's
	// --max-txn-ops where that is another.
	MaxOps int

	// MaxRetries bounds how often a transaction is sent again after its reply was lost or another Guard came first;
	// default 20, with random pauses of up to 250 ms between them. It cannot be negative.
	MaxRetries int

	// OnOutcome is called once at the end of each Do, Txn and Seal with its arguments and the error it is about to return.
	// It must return quickly: the caller waits. nil: nothing is called.
	OnOutcome func(ctx context.Context, resource string, tok guard.Token, err error)
}

const (
	defaultPrefix  = "/fencedlock-marks/"
	defaultMaxOps  = 128 // etcd's own
	leastOps       = 2
	defaultRetries = 20
	longestPrefix  = 512
)

// Guard guards the data of one etcd cluster by the marks under one prefix. It is safe for concurrent use. [New] makes one;
// the methods of a zero or nil Guard return an error. Make one for a program and keep it: it remembers the marks of up to
// about a thousand resources, so that a write takes one round trip, two when it has not seen the resource in the last
// ten seconds, and three when nobody has ever written it.
type Guard struct {
	kv       clientv3.KV
	opts     Options
	end      string // of the range of marks
	instance string // tells this Guard's writes from those of others

	mu     sync.Mutex
	places map[string]*place // by resource; guarded by mu
}

var _ guard.Sealer = (*Guard)(nil)

// New returns a guard for the data that client reaches: a *clientv3.Client, also one whose KV has a namespace, or what
// namespace.NewKV returns. Marks then are in that namespace. It does no I/O. The caller closes the client. nil Options are
// the defaults.
//
// A client waits for a connection as long as the context of a call lives, and for a reply on a dead connection as well: give
// each call a deadline, and set DialKeepAliveTime and DialKeepAliveTimeout in the client's Config.
func New(client clientv3.KV, o *Options) (*Guard, error) {
	if c, is := client.(*clientv3.Client); client == nil || is && (c == nil || c.KV == nil) {
		return nil, errors.New("etcdguard: client is nil")
	}
	if o == nil {
		o = &Options{}
	}
	g := &Guard{kv: client, opts: *o, instance: newNumber(), places: make(map[string]*place)}
	if g.opts.Prefix == "" {
		g.opts.Prefix = defaultPrefix
	}
	g.end = clientv3.GetPrefixRangeEnd(g.opts.Prefix)
	if g.opts.MaxOps == 0 {
		g.opts.MaxOps = defaultMaxOps
	}
	if g.opts.MaxRetries == 0 {
		g.opts.MaxRetries = defaultRetries
	}
	switch {
	case !strings.HasSuffix(g.opts.Prefix, "/"):
		return nil, fmt.Errorf("etcdguard: Options.Prefix: %.40q does not end in \"/\"", o.Prefix)
	case len(g.opts.Prefix) > longestPrefix:
		return nil, fmt.Errorf("etcdguard: Options.Prefix: it has %d bytes; at most %d are allowed", len(o.Prefix), longestPrefix)
	case g.opts.MaxOps < leastOps:
		return nil, fmt.Errorf("etcdguard: Options.MaxOps: %d is less than the %d that the mark takes; 0 is the default of %d", o.MaxOps, leastOps, defaultMaxOps)
	case g.opts.MaxRetries < 0:
		return nil, fmt.Errorf("etcdguard: Options.MaxRetries: %d is negative; 0 is the default of %d", o.MaxRetries, defaultRetries)
	}
	return g, nil
}

// newNumber returns what nobody else has: 65 random bits, as text without "-".
func newNumber() string { return rand.Text()[:13] }

// escapes keep the marks of nested prefixes apart: no name reaches into the prefix below. Lock queues do the same.
var escapes = strings.NewReplacer("%", "%25", "/", "%2F")

func (g *Guard) key(resource string) string { return g.opts.Prefix + escapes.Replace(resource) }

// made returns an error for a Guard that New did not make.
func (g *Guard) made() error {
	if g == nil || g.kv == nil {
		return errors.New("etcdguard: this Guard was not made by New")
	}
	return nil
}

// report hands an operation's outcome to the user.
func (g *Guard) report(ctx context.Context, resource string, tok guard.Token, err error) {
	if g != nil && g.opts.OnOutcome != nil {
		g.opts.OnOutcome(ctx, resource, tok, err)
	}
}

// because adds why the context ended if it has: what clients return then does not always say so.
func because(ctx context.Context, err error) error {
	for _, reason := range []error{ctx.Err(), context.Cause(ctx)} {
		if reason != nil && !errors.Is(err, reason) {
			err = fmt.Errorf("%w (%w)", err, reason)
		}
	}
	return err
}
