package etcdguard

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
)

// never is no key's mod revision; that of an absent key is 0.
const never = -1

// IfHeld is true in a transaction if the lock is still held: its key, Held.Key, is there as it was when it handed out tok,
// Held.Token. It is for transactions of your own, in the cluster of the lock and through the same client:
//
//	resp, err := client.Txn(ctx).If(etcdguard.IfHeld(h.Key(), h.Token())).Then(ops...).Commit()
//
// When resp.Succeeded, the operations were applied while the lock was held by this very hold. It is stricter than a guard: a
// write is refused as soon as the lock has gone, and not only once a successor has written. It is never true for a token
// that is none, nor without a key.
//
// Where it ends: it leaves no mark, so it says nothing about writers that do not use it, nor about data in another cluster,
// which [Guard] is for. Nor does it tell a transaction from its repetition: one whose reply was lost may have been applied, and
// the client itself may send it twice, so compare what it changes, too, or let it be harmless twice.
func IfHeld(key string, tok guard.Token) clientv3.Cmp {
	revision := int64(tok)
	if key == "" {
		key, revision = "\x00", never
	}
	if tok <= 0 {
		revision = never
	}
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}
