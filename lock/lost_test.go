package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// awaitLoss waits for the end of the hold's context and returns its cause.
func awaitLoss(t *testing.T, h *lock.Held, within time.Duration) error {
	t.Helper()
	receiveWithin(t, h.Context().Done(), within)
	cause := context.Cause(h.Context())
	if !errors.Is(cause, lock.ErrLost) || h.Err() != cause || errors.Is(cause, lock.ErrReleased) {
		t.Errorf("the context ended with %v, Err says %v", cause, h.Err())
	}
	return cause
}

// https://github.com/BerriAI/litellm/issues/21225, https://github.com/etcd-io/etcd/issues/9218: the release of a holder whose lock had
// expired deleted the record of its successor. Here the loss comes at each step of the release.
func TestReleaseOfAnExpiredHoldNeverTouchesTheSuccessor(t *testing.T) {
	for _, how := range []string{"lease revoked", "key deleted"} {
		for _, when := range []string{"before Unlock", "on the way to etcd", "before a retry", "after the reply was lost"} {
			t.Run(how+" "+when, func(t *testing.T) {
				ns := namespace(t)
				faults, c := faulty(t)
				s := open(t, c, session.Options{Namespace: ns})
				a := mustLock(t, lock.NewMutex(s, "job"))
				successor := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
				var b *lock.Held
				lose := func() {
					if how == "lease revoked" {
						revoke(t, s)
					} else {
						remove(t, a.Key())
					}
					b = mustLock(t, successor)
				}
				released := false
				switch when {
				case "before Unlock":
					lose()
				case "on the way to etcd":
					faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
						lose()
						return call.Send(ctx)
					})
				case "before a retry":
					faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
						lose()
						return etcdtest.ErrReplyLost
					})
					released = true // nobody can tell that it was not
				case "after the reply was lost":
					faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
						if err := call.Send(ctx); err != nil {
							return err
						}
						b = mustLock(t, successor)
						return etcdtest.ErrReplyLost
					})
					released = true
				}
				if err := a.Unlock(); released && err != nil || !released && !errors.Is(err, lock.ErrLost) {
					t.Errorf("Unlock: %v", err)
				}
				_ = a.Unlock()
				if kv := find(t, b.Key()); kv == nil || kv.ModRevision != int64(b.Token()) || b.Err() != nil {
					t.Errorf("the successor: key %v, %v", kv, b.Err())
				}
				third := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
				if _, err := third.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
					t.Errorf("a third party got in: %v", err)
				}
				mustUnlock(t, b)
			})
		}
	}
}

// https://github.com/swarthy/redis-semaphore/issues/175, https://github.com/go-redsync/redsync/pull/149: the renewer took the lock
// again and hid that somebody else had held it in between.
func TestDeadHoldStaysDeadWhenRenewalsWorkAgain(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	faults, c := faulty(t)
	silence := silenceRenewals(faults)
	s := open(t, c, session.Options{Namespace: ns, TTL: 2 * time.Second})
	m := lock.NewMutex(s, "job")
	a := mustLock(t, m)
	var resource guard.Gate
	write := func(h *lock.Held) error {
		return resource.Do(h.Resource(), h.Token(), func() error { return nil })
	}
	if err := write(a); err != nil {
		t.Fatal(err)
	}
	silence.Store(true)
	b := mustLock(t, lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	if err := write(b); err != nil {
		t.Error(err)
	}
	mustUnlock(t, b)
	silence.Store(false)
	if cause := awaitLoss(t, a, time.Second); !errors.Is(cause, session.ErrExpired) {
		t.Errorf("lost because of %v", cause)
	}
	s.Internal().RenewNow(t.Context())
	time.Sleep(s.TTL() / 2) // renewals would come by now
	if a.Err() == nil || s.Err() == nil {
		t.Errorf("the hold: %v, the session: %v", a.Err(), s.Err())
	}
	if _, err := m.Lock(t.Context()); !errors.Is(err, session.ErrExpired) {
		t.Errorf("Lock on the dead session: %v", err)
	}
	if err := a.Unlock(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, session.ErrExpired) {
		t.Errorf("Unlock: %v", err)
	}
	again := mustLock(t, lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job"))
	if again.Token() <= b.Token() {
		t.Errorf("token %d after %d", again.Token(), b.Token())
	}
	var stale *guard.StaleError
	if err := write(a); !errors.As(err, &stale) || stale.Highest != b.Token() {
		t.Errorf("a write with the old token: %v", err)
	}
	mustUnlock(t, again)
}

// https://github.com/etcd-io/etcd/issues/15247, https://github.com/etcd-io/etcd/issues/12528: a stalled leader's late revoke deleted
// the keys of clients whose renewals succeeded.
func TestKeyThatGoesWhileRenewalsSucceedIsALoss(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before the key is watched": 0, "while the key is watched": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			s := open(t, direct, session.Options{Namespace: ns})
			m := lock.NewMutex(s, "job")
			a := mustLock(t, m)
			var resource guard.Gate
			if err := resource.Do("job", a.Token(), func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			waiter := goLock(t.Context(), lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
			awaitQueue(t, ns, "job", 2)
			time.Sleep(wait)
			remove(t, a.Key())
			b := receiveWithin(t, waiter, 2*time.Second)
			if b.err != nil {
				t.Fatal(b.err)
			}
			if cause := awaitLoss(t, a, 2*time.Second); errors.Is(cause, session.ErrExpired) || !strings.Contains(cause.Error(), "deleted") {
				t.Errorf("lost because of %v", cause)
			}
			if err := s.Err(); err != nil {
				t.Errorf("the session: %v", err)
			}
			// The old holder's write is welcome until the successor's, and no longer.
			if err := resource.Do("job", b.h.Token(), func() error { return nil }); err != nil {
				t.Error(err)
			}
			if err := resource.Do("job", a.Token(), func() error { return nil }); !errors.Is(err, guard.ErrStale) {
				t.Errorf("a write with the old token: %v", err)
			}
			if err := a.Unlock(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Unlock: %v", err)
			}
			mustUnlock(t, b.h)
			mustUnlock(t, mustLock(t, m)) // the session can lock again
		})
	}
}

// https://github.com/etcd-io/etcd/issues/14758, https://github.com/etcd-io/etcd/pull/21389: a renewal that raced with the revocation
// was acknowledged although the keys had gone.
func TestAcknowledgedRenewalOfAnEmptyLeaseDoesNotSaveTheHold(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	faults.Stream("LeaseKeepAlive", -1, etcdtest.StreamHook{Recv: func(_ context.Context, msg any) error {
		msg.(*pb.LeaseKeepAliveResponse).TTL = 60
		return nil
	}})
	s := open(t, c, session.Options{Namespace: ns})
	h := mustLock(t, lock.NewMutex(s, "job"))
	revoke(t, s)
	s.Internal().RenewNow(t.Context())
	if err := s.Err(); err != nil {
		t.Fatalf("the forged renewal was not believed: %v", err)
	}
	awaitLoss(t, h, 2*time.Second)
	if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
}

// https://github.com/awslabs/amazon-dynamodb-lock-client/issues/1: random ids and zero values passed for fencing tokens.
func TestTokensOfEndedHoldsAreOldAndOfNoHoldAreNone(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	m := lock.NewMutex(s, "job")
	var resource guard.Gate
	write := func(h *lock.Held) error { return resource.Do("job", h.Token(), func() error { return nil }) }
	unlocked := mustLock(t, m)
	mustUnlock(t, unlocked)
	lost := mustLock(t, m)
	remove(t, lost.Key())
	awaitLoss(t, lost, 2*time.Second)
	if unlocked.Token() <= 0 || lost.Token() <= unlocked.Token() {
		t.Errorf("tokens %d, then %d", unlocked.Token(), lost.Token())
	}
	h := mustLock(t, m)
	if err := write(h); err != nil {
		t.Fatal(err)
	}
	for what, old := range map[string]*lock.Held{"unlocked": unlocked, "lost": lost} {
		if err := write(old); !errors.Is(err, guard.ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var none *lock.Held
	for _, h := range []*lock.Held{{}, none} {
		if err := write(h); !errors.Is(err, guard.ErrNoToken) {
			t.Errorf("no hold: %v", err)
		}
	}
	_ = lost.Unlock()
	mustUnlock(t, h)
}

// What the watch has seen is told at once; that etcd is also asked about the lease, for a better reason, must not delay it.
func TestLossIsToldAtOnceThoughRenewalsAreSilent(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	silence := silenceRenewals(faults)
	h := mustLock(t, lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job"))
	eventually(t, "the key is watched", func() bool { return faults.Count("Watch").Received > 0 })
	silence.Store(true)
	remove(t, h.Key())
	awaitLoss(t, h, 2*time.Second)
	if err := h.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
	silence.Store(false)
}
