package lock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// acquirers are the two ways to a lock; what holds for one holds for the other.
var acquirers = map[string]func(*lock.Mutex, context.Context) (*lock.Held, error){
	"Lock": (*lock.Mutex).Lock, "TryLock": (*lock.Mutex).TryLock,
}

func epochKey(ns string, s *session.Session) string {
	return fmt.Sprintf("%s%%epoch/%x", ns, int64(s.Lease()))
}

// The first put is late, its retry wins. While the reply to the release is under way the late put lands, and the sweeper looks
// at it when its nonce still has an owner. Found by the model of the protocol.
func TestPutThatLandsDuringTheReleaseBlocksNobody(t *testing.T) {
	for how, acquire := range acquirers {
		t.Run(how, func(t *testing.T) {
			ns := namespace(t)
			faults, c := faulty(t)
			s := open(t, c, session.Options{Namespace: ns})
			late := faults.Late("Txn")
			epoch := faults.Pause("Put")
			h, err := acquire(lock.NewMutex(s, "job"), t.Context())
			if err != nil {
				t.Fatal(err)
			}
			receive(t, epoch.Reached())
			released := faults.PauseReply("Txn")
			unlocked := make(chan error, 1)
			go func() { unlocked <- h.Unlock() }()
			receive(t, released.Reached())
			if err := late.Release(); err != nil {
				t.Fatal(err)
			}
			if find(t, h.Key()) == nil {
				t.Fatal("the late put was refused")
			}
			reads := faults.Count("Range").Calls
			if err := epoch.Release(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the sweeper has looked", func() bool { return faults.Count("Range").Calls > reads })
			time.Sleep(100 * time.Millisecond) // let it act on what it has read
			if err := released.Release(); err != nil {
				t.Fatal(err)
			}
			if err := receive(t, unlocked); err != nil {
				t.Fatal(err)
			}
			expectFree(t, ns, "job")
		})
	}
}

// A put whose reply was lost landed 12 s after its client had given it up, when the retry of it had won and had been
// released. Nobody owned the key, and it blocked everybody for as long as the session lived.
func TestPutThatLandsAfterItsRetryWasReleasedBlocksNobody(t *testing.T) {
	for how, acquire := range acquirers {
		t.Run(how, func(t *testing.T) {
			ns := namespace(t)
			faults, c := faulty(t)
			s := open(t, c, session.Options{Namespace: ns})
			late := faults.Late("Txn")
			h, err := acquire(lock.NewMutex(s, "job"), t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mustUnlock(t, h)
			eventually(t, "the epoch moves", func() bool { return find(t, epochKey(ns, s)) != nil })
			if err := late.Release(); err != nil {
				t.Fatal(err)
			}
			if kvs := queue(t, ns, "job"); len(kvs) > 0 {
				t.Errorf("the late put landed: %v", kvs)
			}
			expectFree(t, ns, "job")
			// The session goes on after its epoch has moved.
			h, err = acquire(lock.NewMutex(s, "job"), t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mustUnlock(t, h)
		})
	}
}

// The same when the put lands before the epoch has moved: then the key is there, and is swept.
func TestPutThatLandsBeforeTheEpochMovesIsSwept(t *testing.T) {
	for how, acquire := range acquirers {
		t.Run(how, func(t *testing.T) {
			ns := namespace(t)
			faults, c := faulty(t)
			s := open(t, c, session.Options{Namespace: ns})
			late, epoch := faults.Late("Txn"), faults.Pause("Put")
			h, err := acquire(lock.NewMutex(s, "job"), t.Context())
			if err != nil {
				t.Fatal(err)
			}
			mustUnlock(t, h)
			receive(t, epoch.Reached())
			if err := late.Release(); err != nil {
				t.Fatal(err)
			}
			awaitQueue(t, ns, "job", 1)
			waiter := goLock(t.Context(), lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
			awaitQueue(t, ns, "job", 2)
			epoch.Release()
			got := receiveWithin(t, waiter, 5*time.Second)
			if got.err != nil {
				t.Fatal(got.err)
			}
			mustUnlock(t, got.h)
		})
	}
}

// The put lands, the reply is lost, and the caller gives up: the key is deleted although its revision is unknown.
func TestGivenUpPutThatLandsLaterBlocksNobody(t *testing.T) {
	for how, acquire := range acquirers {
		t.Run(how, func(t *testing.T) {
			ns := namespace(t)
			faults, c := faulty(t)
			s := open(t, c, session.Options{Namespace: ns})
			ctx, cancel := context.WithCancel(t.Context())
			late := faults.Late("Txn")
			go func() { <-late.Reached(); cancel() }()
			faults.Pause("Txn") // the retry gets nowhere
			if h, err := acquire(lock.NewMutex(s, "job"), ctx); !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, %v", h, err)
			}
			eventually(t, "the epoch moves", func() bool { return find(t, epochKey(ns, s)) != nil })
			if err := late.Release(); err != nil {
				t.Fatal(err)
			}
			expectFree(t, ns, "job")
		})
	}
}

func TestLostReplyOfThePutIsRecognisedAsHeld(t *testing.T) {
	for how, acquire := range acquirers {
		t.Run(how, func(t *testing.T) {
			ns := namespace(t)
			faults, c := faulty(t)
			m := lock.NewMutex(open(t, c, session.Options{Namespace: ns}), "job")
			var written int64
			faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
				if err := call.Send(ctx); err != nil {
					return err
				}
				written = call.Reply.(*pb.TxnResponse).Header.Revision
				return etcdtest.ErrReplyLost
			})
			h, err := acquire(m, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			kvs := queue(t, ns, "job")
			if int64(h.Token()) != written || len(kvs) != 1 || kvs[0].ModRevision != written || kvs[0].Version != 1 {
				t.Errorf("token %d, written at %d, queue %v", h.Token(), written, kvs)
			}
			mustUnlock(t, h)
			expectFree(t, ns, "job")
		})
	}
}

// leftover writes a key that looks like one of the session's own.
func leftover(t *testing.T, ns string, s *session.Session, number int, nonce string) int64 {
	t.Helper()
	value, err := json.Marshal(map[string]any{"v": 1, "owner": "x", "nonce": nonce})
	if err != nil {
		t.Fatal(err)
	}
	key := fmt.Sprintf("%sjob%%/%x-%d", ns, int64(s.Lease()), number)
	return put(t, key, string(value), clientv3.WithLease(s.Lease()))
}

func TestLeftoverKeyIsDeletedAndNeverAdopted(t *testing.T) {
	for how, acquire := range acquirers {
		for _, number := range []int{0, 7} { // the name that comes next, and another
			t.Run(fmt.Sprint(how, number), func(t *testing.T) {
				ns := namespace(t)
				s := open(t, direct, session.Options{Namespace: ns})
				old := leftover(t, ns, s, number, "of nobody")
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				h, err := acquire(lock.NewMutex(s, "job"), ctx)
				if err != nil {
					t.Fatal(err)
				}
				kvs := queue(t, ns, "job")
				if int64(h.Token()) <= old || len(kvs) != 1 || kvs[0].ModRevision != int64(h.Token()) || kvs[0].Version != 1 {
					t.Errorf("token %d, leftover %d, queue %v", h.Token(), old, kvs)
				}
				mustUnlock(t, h)
			})
		}
	}
}

// A key that etcd's own mutex wrote with the session's lease is no leftover.
func TestEtcdsMutexOnTheSessionsLeaseIsRespected(t *testing.T) {
	ns := namespace(t)
	s := open(t, direct, session.Options{Namespace: ns})
	cs, err := concurrency.NewSession(direct, concurrency.WithLease(s.Lease()))
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Orphan()
	theirs := concurrency.NewMutex(cs, ns+"job")
	if err := theirs.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := lock.NewMutexAt(s, ns+"job")
	if _, err := ours.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("TryLock: %v", err)
	}
	waiter := goLock(t.Context(), ours)
	eventually(t, "ours waits", func() bool {
		resp, err := direct.Get(t.Context(), ns+"job/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == 2
	})
	if find(t, theirs.Key()) == nil {
		t.Error("their key was deleted")
	}
	if err := theirs.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := receive(t, waiter)
	if got.err != nil {
		t.Fatal(got.err)
	}
	mustUnlock(t, got.h)
}

// Somebody who tidies up deletes the session's own key beside the queues. Acquisitions that were sent with its old revision
// would fail for ever.
func TestDeletedEpochKeyIsWrittenAnew(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	m := lock.NewMutex(s, "job")
	faults.LoseReplies("Txn", 1)
	mustUnlock(t, mustLock(t, m))
	eventually(t, "the epoch moves", func() bool { return find(t, epochKey(ns, s)) != nil })
	mustUnlock(t, mustLock(t, m)) // the session knows it by now
	remove(t, epochKey(ns, s))
	before := faults.Count("").Calls
	mustUnlock(t, mustLock(t, m))
	if n := faults.Count("").Calls - before; n > 20 {
		t.Errorf("the lock took %d calls", n)
	}
}

// The sweeper is after a late put of an earlier hold while the next one has the same key name.
func TestSweepForAnEarlierHoldLeavesTheNextAlone(t *testing.T) {
	ns := namespace(t)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns})
	m := lock.NewMutex(s, "job")
	faults.LoseReplies("Txn", 1)
	epoch := faults.Pause("Put")
	first := mustLock(t, m)
	mustUnlock(t, first)
	receive(t, epoch.Reached())
	second := mustLock(t, m)
	if second.Key() != first.Key() {
		t.Fatalf("keys %q and %q", first.Key(), second.Key())
	}
	reads := faults.Count("Range").Calls
	epoch.Release()
	eventually(t, "the sweeper has looked", func() bool { return faults.Count("Range").Calls > reads })
	time.Sleep(200 * time.Millisecond)
	if kv := find(t, second.Key()); kv == nil || kv.ModRevision != int64(second.Token()) || second.Err() != nil {
		t.Errorf("the next hold: key %v, %v", kv, second.Err())
	}
	mustUnlock(t, second)
}
