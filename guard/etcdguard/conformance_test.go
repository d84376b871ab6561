package etcdguard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

func TestEtcdPassesTheSuite(t *testing.T) {
	for name, wrap := range map[string]func(clientv3.KV) clientv3.KV{
		"plain":      func(kv clientv3.KV) clientv3.KV { return kv },
		"namespaced": func(kv clientv3.KV) clientv3.KV { return namespace.NewKV(kv, "tenant/") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := etcdtest.Start(t, nil) // one check restarts it
			client := own.Client(t)
			stores := 0
			guardtest.Run(t, func(t *testing.T) guardtest.Store {
				stores++
				return store(t, own, wrap, client, fmt.Sprintf("/%d/", stores))
			})
		})
	}
}

// store is the suite's view of keys under prefix, with a mark for each.
func store(t *testing.T, own *etcdtest.Cluster, wrap func(clientv3.KV) clientv3.KV, client *clientv3.Client, prefix string) guardtest.Store {
	kv := wrap(client)
	g := newGuardWith(t, kv, etcdguard.Options{Prefix: prefix + "marks/"})
	faults := new(etcdtest.Faults)
	lossy := newGuard(t, wrap(own.Client(t, faults.Apply)), prefix)
	data := func(resource string) string { return prefix + "data/" + resource }
	put := func(g *etcdguard.Guard) func(context.Context, string, guard.Token, string) error {
		return func(ctx context.Context, resource string, tok guard.Token, value string) error {
			return g.Do(ctx, resource, tok, clientv3.OpPut(data(resource), value))
		}
	}
	losing := func(lose func()) func(context.Context, string, guard.Token, string) error {
		return func(ctx context.Context, resource string, tok guard.Token, value string) error {
			lose()
			before := faults.Count("Txn").Calls
			err := put(lossy)(ctx, resource, tok, value)
			if faults.Count("Txn").Calls == before {
				t.Error("no transaction was sent")
			}
			faults.Clear()
			return err
		}
	}
	return guardtest.Store{
		Sealer: g,
		Write:  put(g),
		Read: func(ctx context.Context, resource string) (string, error) {
			resp, err := kv.Get(ctx, data(resource))
			if err != nil || len(resp.Kvs) == 0 {
				return "", err
			}
			return string(resp.Kvs[0].Value), nil
		},
		Delete: func(ctx context.Context, resource string, tok guard.Token) error {
			return g.Do(ctx, resource, tok, clientv3.OpDelete(data(resource)))
		},
		Restart: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return own.Member(0).Restart(ctx)
		},
		LoseReply:   losing(func() { faults.LoseReplies("Txn", 1) }),
		LoseRequest: losing(func() { faults.Fail("Txn", -1, etcdtest.ErrReplyLost) }),
	}
}
