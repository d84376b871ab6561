package etcdguard_test

import (
	"math"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func ifHeld(t *testing.T, kv clientv3.KV, key string, tok guard.Token) bool {
	t.Helper()
	resp, err := kv.Txn(t.Context()).If(etcdguard.IfHeld(key, tok)).Then(clientv3.OpGet("x")).Commit()
	if err != nil {
		t.Fatalf("IfHeld(%q, %d): %v", key, int64(tok), err)
	}
	return resp.Succeeded
}

func TestIfHeldIsTrueForThisHoldAlone(t *testing.T) {
	p := prefix(t)
	s, err := session.New(t.Context(), direct, &session.Options{Namespace: p})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := lock.NewMutex(s, "job")
	hold := func() *lock.Held {
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hold()
	if !ifHeld(t, direct, first.Key(), first.Token()) {
		t.Error("it is false while the lock is held")
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	if ifHeld(t, direct, first.Key(), first.Token()) {
		t.Error("it is true when the lock was released")
	}
	second := hold() // the same key, since names are used again
	defer second.Unlock()
	if second.Key() == first.Key() && ifHeld(t, direct, first.Key(), first.Token()) {
		t.Error("it is true for the first hold during the second")
	}
	if !ifHeld(t, direct, second.Key(), second.Token()) {
		t.Error("it is false during the second hold")
	}
	for _, tok := range []guard.Token{second.Token() - 1, second.Token() + 1, math.MaxInt64} {
		if ifHeld(t, direct, second.Key(), tok) {
			t.Errorf("it is true for %d, and the token is %d", int64(tok), int64(second.Token()))
		}
	}
}

// An absent key has mod revision 0, so that a zero token would prove that nobody holds the lock:
// https://github.com/bsm/redislock/pull/94, https://github.com/awslabs/amazon-dynamodb-lock-client/issues/1
func TestIfHeldIsNeverTrueForWhatIsNoToken(t *testing.T) {
	p := prefix(t)
	if _, err := direct.Put(t.Context(), p+"there", "x"); err != nil {
		t.Fatal(err)
	}
	for _, kv := range []clientv3.KV{direct, namespace.NewKV(direct, p)} {
		for _, tok := range []guard.Token{0, -1, math.MinInt64} {
			for _, key := range []string{p + "absent", p + "there", "there", "absent", ""} {
				if ifHeld(t, kv, key, tok) {
					t.Errorf("it is true for %q and %d", key, int64(tok))
				}
			}
		}
		if ifHeld(t, kv, "", 5) {
			t.Error("it is true without a key")
		}
	}
}
