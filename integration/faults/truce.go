//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
)

// keepTruce lets everybody work without any fault, and then looks for what nobody cleans up.
func (n *nemesis) keepTruce(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(truce):
		n.leftOnce(ctx)
	}
}

// old is how old the name of a lock that is used once must be for nobody to have it or wait for it any more, if there has
// been no fault for a truce.
const old = truce - worker.OncePatience

// leftOnce looks for keys of locks that are used once: whoever still lives has deleted its own by now, and whoever does not
// lost them with its lease. etcd's own locks are not judged by it.
func (n *nemesis) leftOnce(ctx context.Context) {
	if n.mode == worker.Etcd {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asked)
	defer cancel()
	prefix := namespace + worker.OncePrefix
	resp, err := n.site.client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		if n.s.Context().Err() == nil {
			n.s.Errorf("looking for keys when there is no fault: %v", err)
		}
		return
	}
	for _, kv := range resp.Kvs {
		key := string(kv.Key)
		name, _, _ := strings.Cut(strings.TrimPrefix(key, namespace), "%")
		if age, ok := worker.OnceAge(name); !ok || age > old {
			n.rec.Add(history.Event{Kind: history.Over, Name: "key of a lock that was used once",
				Err: fmt.Sprintf("%s (lease %x), %.1f s after its use", key, kv.Lease, age.Seconds())})
		}
	}
}
