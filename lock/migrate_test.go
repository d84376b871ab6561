package lock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func etcdsSession(t *testing.T) *concurrency.Session {
	t.Helper()
	s, err := concurrency.NewSession(direct, concurrency.WithTTL(60))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestEtcdsMutexAndOursExcludeEachOtherOnOnePrefix(t *testing.T) {
	prefix := namespace(t) + "job"
	ours := lock.NewMutexAt(open(t, direct, session.Options{Namespace: prefix[:len(prefix)-3] + "own/"}), prefix)
	cs := etcdsSession(t)
	theirs := concurrency.NewMutex(cs, prefix)

	h := mustLock(t, ours)
	if !strings.HasPrefix(h.Key(), prefix+"/") || h.Resource() != prefix {
		t.Errorf("key %q, resource %q", h.Key(), h.Resource())
	}
	if err := theirs.TryLock(t.Context()); !errors.Is(err, concurrency.ErrLocked) {
		t.Errorf("their TryLock while ours holds: %v", err)
	}
	got := make(chan error)
	go func() { got <- theirs.Lock(t.Context()) }()
	eventually(t, "theirs waits", func() bool { return countKeys(t, prefix+"/") == 2 })
	mustUnlock(t, h)
	if err := receive(t, got); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("our TryLock while theirs holds: %v", err)
	}
	waiter := goLock(t.Context(), ours)
	eventually(t, "ours waits", func() bool { return countKeys(t, prefix+"/") == 2 })
	if err := theirs.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := receiveWithin(t, waiter, quick)
	if second.err != nil {
		t.Fatal(second.err)
	}
	if second.h.Token() <= h.Token() {
		t.Errorf("token %d after %d", second.h.Token(), h.Token())
	}
	mustUnlock(t, second.h)
}

func countKeys(t *testing.T, prefix string) int64 {
	t.Helper()
	resp, err := direct.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return resp.Count
}

func TestMixedContendersWithCancelsNeverOverlap(t *testing.T) {
	t.Parallel()
	prefix := namespace(t) + "job"
	var x exclusion
	var mu sync.Mutex // of the counts, not of x
	counts := map[string]int{}
	round := func(kind string, acquire func(ctx context.Context) (guard.Token, func() error, error)) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(800))*time.Millisecond)
		defer cancel()
		tok, release, err := acquire(ctx)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", kind, err)
			}
			kind += " cancelled"
		} else {
			x.counter++
			x.tokens = append(x.tokens, tok)
			if err := release(); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		mu.Lock()
		counts[kind]++
		mu.Unlock()
	}
	var wg sync.WaitGroup
	until := time.Now().Add(5 * time.Second)
	for range 2 {
		m := lock.NewMutexAt(open(t, direct, session.Options{Namespace: prefix[:len(prefix)-3] + "own/"}), prefix)
		wg.Go(func() {
			for time.Now().Before(until) {
				round("ours", func(ctx context.Context) (guard.Token, func() error, error) {
					h, err := m.Lock(ctx)
					return h.Token(), h.Unlock, err
				})
			}
		})
		cs := etcdsSession(t)
		wg.Go(func() {
			for time.Now().Before(until) {
				theirs := concurrency.NewMutex(cs, prefix)
				round("theirs", func(ctx context.Context) (guard.Token, func() error, error) {
					if err := theirs.Lock(ctx); err != nil {
						return 0, nil, err
					}
					// The number that the documentation names for them.
					kv := find(t, theirs.Key())
					return guard.Token(kv.CreateRevision), func() error { return theirs.Unlock(t.Context()) }, nil
				})
			}
		})
	}
	wg.Wait()
	t.Logf("%v", counts)
	if counts["ours"] == 0 || counts["theirs"] == 0 || counts["ours cancelled"]+counts["theirs cancelled"] == 0 {
		t.Error("not every kind had its turn")
	}
	x.check(t, counts["ours"]+counts["theirs"])
}

// What a session writes for itself must not lie in a queue that it waits in, and a lock of the namespace would be guarded
// under a second name.
func TestPrefixThatHoldsTheSessionsOwnKeysIsRefused(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	before := faults.Count("").Calls
	for _, prefix := range []string{ns[:len(ns)-1], "", ns + "%epoch", ns + "%x/y", ns + "job%"} {
		if _, err := lock.NewMutexAt(s, prefix).Lock(t.Context()); err == nil || !strings.Contains(err.Error(), "bad prefix") {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	if n := faults.Count("").Calls - before; n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// With etcd's mutex a prefix that lies below another's shares its queue. That makes its keys nobody's leftovers.
func TestNestedPrefixesExcludeEachOtherWithinASession(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns + "own/"})
	inner, outer := lock.NewMutexAt(s, ns+"a/b"), lock.NewMutexAt(s, ns+"a")
	h := mustLock(t, inner)
	if _, err := outer.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("TryLock of the outer prefix: %v", err)
	}
	waiter := goLock(t.Context(), outer)
	eventually(t, "the outer one waits", func() bool { return countKeys(t, ns+"a/") == 2 })
	time.Sleep(100 * time.Millisecond)
	if kv := find(t, h.Key()); kv == nil || h.Err() != nil {
		t.Errorf("the inner hold: key %v, %v", kv, h.Err())
	}
	mustUnlock(t, h)
	got := receiveWithin(t, waiter, quick)
	if got.err != nil {
		t.Fatal(got.err)
	}
	mustUnlock(t, got.h)
}
