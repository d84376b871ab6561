package lock_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func TestFreeLockCostsOneRoundTripEachWay(t *testing.T) {
	faults, c := faulty(t)
	m := lock.NewMutex(open(t, c, session.Options{Namespace: namespace(t)}), "job")
	calls := func() [2]int { return [2]int{faults.Count("Txn").Calls, faults.Count("").Calls} }
	var seen [4][2]int
	// One that is held for longer, if only since this test did not get to run, is watched.
	const short, tries = 25 * time.Millisecond, 50
	for range tries {
		before, began := calls(), time.Now()
		h := mustLock(t, m)
		seen[0] = calls()
		mustUnlock(t, h)
		seen[1] = calls()
		h, err := m.TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen[2] = calls()
		mustUnlock(t, h)
		seen[3] = calls()
		if time.Since(began) > short {
			continue
		}
		for i, now := range seen {
			if n, all := now[0]-before[0], now[1]-before[1]; n != i+1 || all != i+1 {
				t.Errorf("after Lock, Unlock, TryLock and Unlock it is %d transactions and %d calls at number %d", n, all, i+1)
			}
		}
		return
	}
	t.Fatalf("none of %d attempts took less than %v", tries, short)
}

func TestRefusedTryLockNamesTheHolderAndWritesNothing(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns, Owner: "alice"}), "job")
	h := mustLock(t, m)
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: ns, Owner: "bob"})
	before, rev := faults.Count("").Calls, mustRevision(t)
	_, err := lock.NewMutex(s, "job").TryLock(t.Context())
	var locked *lock.LockedError
	if !errors.Is(err, lock.ErrLocked) || !errors.As(err, &locked) {
		t.Fatalf("TryLock: %v", err)
	}
	if n := faults.Count("").Calls - before; n != 1 {
		t.Errorf("the refusal cost %d calls", n)
	}
	if now := mustRevision(t); now != rev {
		t.Errorf("the refusal moved the revision from %d to %d", rev, now)
	}
	e := locked.Holder
	if locked.Name != "job" || e.Token != h.Token() || e.Owner != "alice" || e.PID != os.Getpid() ||
		e.TTL != time.Minute || time.Since(e.Since) > time.Minute || e.Lease == 0 {
		t.Errorf("LockedError = %+v", locked)
	}
	for _, part := range []string{`"job"`, "alice", h.Token().String()} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %s", err, part)
		}
	}
	// The same session is refused as well: the lock is not re-entrant.
	if _, err := m.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
		t.Errorf("TryLock by the holder's session: %v", err)
	}
	mustUnlock(t, h)
}

func mustRevision(t *testing.T) int64 {
	t.Helper()
	resp, err := direct.Get(t.Context(), "/none")
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

func TestStatusShowsTheQueueInOrder(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns, Owner: "first"}), "job")
	if st, err := m.Status(t.Context()); err != nil || st.Name != "job" || len(st.Holders)+len(st.Waiters) != 0 {
		t.Fatalf("free: %+v, %v", st, err)
	}
	h := mustLock(t, m)
	var waiters []<-chan outcome
	for i, owner := range []string{"second", "third"} {
		waiters = append(waiters, goLock(t.Context(),
			lock.NewMutex(open(t, direct, session.Options{Namespace: ns, Owner: owner}), "job")))
		awaitQueue(t, ns, "job", i+2)
	}
	st, err := m.Status(t.Context())
	if err != nil || len(st.Holders) != 1 || len(st.Waiters) != 2 {
		t.Fatalf("Status = %+v, %v", st, err)
	}
	if st.Holders[0].Owner != "first" || st.Holders[0].Token != h.Token() ||
		st.Waiters[0].Owner != "second" || st.Waiters[1].Owner != "third" {
		t.Errorf("Status = %+v", st)
	}
	mustUnlock(t, h)
	for i, w := range waiters {
		next := receive(t, w)
		if next.err != nil {
			t.Fatal(next.err)
		}
		// A waiter shows the token that it then gets.
		if next.h.Token() != st.Waiters[i].Token {
			t.Errorf("token %d, announced as %d", next.h.Token(), st.Waiters[i].Token)
		}
		mustUnlock(t, next.h)
	}
}

// https://github.com/etcd-io/etcd/issues/10096, https://github.com/etcd-io/etcd/pull/11490: a token taken from a response's
// header is another one at the next call.
func TestTokenIsTheKeysOwnRevisionAndStaysSo(t *testing.T) {
	ns := namespace(t)
	m := lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job")
	check := func(h *lock.Held) guard.Token {
		t.Helper()
		tok := h.Token()
		put(t, ns+"unrelated", "x")
		kv := find(t, h.Key())
		if kv == nil || guard.Token(kv.ModRevision) != tok || kv.ModRevision != kv.CreateRevision || kv.Version != 1 {
			t.Errorf("token %d, key %v", tok, kv)
		}
		if st, err := m.Status(t.Context()); err != nil || st.Holders[0].Token != tok {
			t.Errorf("Status = %+v, %v; token %d", st, err, tok)
		}
		if _, err := m.TryLock(t.Context()); !errors.Is(err, lock.ErrLocked) {
			t.Errorf("TryLock: %v", err)
		}
		if h.Token() != tok {
			t.Errorf("the token changed from %d to %d", tok, h.Token())
		}
		return tok
	}
	first := mustLock(t, m)
	tok := check(first)
	waiter := goLock(t.Context(), lock.NewMutex(open(t, direct, session.Options{Namespace: ns}), "job"))
	awaitQueue(t, ns, "job", 2)
	for range 5 {
		put(t, ns+"unrelated", "x")
	}
	mustUnlock(t, first)
	second := receive(t, waiter)
	if second.err != nil {
		t.Fatal(second.err)
	}
	if next := check(second.h); next <= tok || first.Token() != tok {
		t.Errorf("tokens %d, then %d; the first hold now says %d", tok, next, first.Token())
	}
	mustUnlock(t, second.h)
	third := mustLock(t, m)
	if check(third) <= second.h.Token() {
		t.Errorf("tokens %d, then %d", second.h.Token(), third.Token())
	}
	mustUnlock(t, third)
	remove(t, ns+"unrelated")
}

func TestCallsThatCannotSucceedMakeNoRequest(t *testing.T) {
	faults, c := faulty(t)
	s := open(t, c, session.Options{Namespace: namespace(t)})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := faults.Count("").Calls
	for what, m := range map[string]*lock.Mutex{
		"empty": lock.NewMutex(s, ""), "long": lock.NewMutex(s, strings.Repeat("x", 513)), "NUL": lock.NewMutex(s, "a\x00b"),
		"not UTF-8": lock.NewMutex(s, "a\xff"), "too many escapes": lock.NewMutex(s, strings.Repeat("#", 200)),
		"no session": lock.NewMutex(nil, "a"), "empty session": lock.NewMutex(&session.Session{}, "a"),
		"empty prefix": lock.NewMutexAt(s, ""), "zero Mutex": {}, "nil Mutex": nil,
	} {
		if _, err := m.Lock(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "lock: ") {
			t.Errorf("%s: Lock: %v", what, err)
		}
		if _, err := m.TryLock(t.Context()); err == nil || errors.Is(err, lock.ErrLocked) {
			t.Errorf("%s: TryLock: %v", what, err)
		}
		if _, err := m.Status(t.Context()); err == nil {
			t.Errorf("%s: Status: nil", what)
		}
		err := m.Do(t.Context(), func(context.Context, *lock.Held) error { t.Errorf("%s: fn ran", what); return nil })
		if err == nil || !strings.Contains(err.Error(), "fn was not run") {
			t.Errorf("%s: Do: %v", what, err)
		}
	}
	m := lock.NewMutex(s, "a")
	if _, err := m.Lock(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: Lock: %v", err)
	}
	if _, err := m.TryLock(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: TryLock: %v", err)
	}
	if n := faults.Count("").Calls - before; n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before = faults.Count("").Calls
	if _, err := m.Lock(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("closed session: Lock: %v", err)
	}
	if _, err := m.TryLock(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("closed session: TryLock: %v", err)
	}
	if n := faults.Count("").Calls - before; n != 0 {
		t.Errorf("%d requests were made for a closed session", n)
	}
}
