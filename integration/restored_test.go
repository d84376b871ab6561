//go:build unix

package integration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// An etcd that is restored from a backup counts its revisions from there again, so tokens go back: at first every write is
// refused, which is right, with an error that names the way out; that way, the operator's steps one by one, brings them back.
//
// https://github.com/etcd-io/etcd/issues/16028, https://github.com/etcd-io/etcd/pull/16029, https://github.com/etcd-io/website/pull/818,
// https://github.com/loft-sh/vcluster/pull/3019, https://github.com/kubernetes/kubernetes/issues/89595
func TestRestoredEtcdIsRefusedUntilItsRevisionIsBumped(t *testing.T) {
	t.Parallel()
	etcdutl := findEtcdutl(t)
	etcd := etcdtest.Start(t, nil)
	client := etcd.Client(t)
	const ttl = 6 * time.Second // it outlives restarts, and a holder looks for its key at least every third of it
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	resources := guardedResources(t)

	// The day before the backup, and the backup.
	longLived := openSession(t, client, ttl)
	early := held(t, longLived, "account/2") // its key is in the backup
	first := held(t, openSession(t, client, ttl), "account/1")
	for _, r := range resources {
		r.mustWrite(t, first, "monday")
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	offline(t, etcd, func(dir string) error { return os.CopyFS(backup, os.DirFS(dir)) })

	// Life goes on: the last holder before the restore.
	for range 40 {
		if _, err := client.Put(ctx, "/elsewhere", ""); err != nil {
			t.Fatal(err)
		}
	}
	late := held(t, openSession(t, client, ttl), "account/1")
	for _, r := range resources {
		r.mustWrite(t, late, "tuesday")
	}
	if err := held(t, longLived, "account/3").Unlock(); err != nil { // so this session has seen how far etcd had come
		t.Fatal(err)
	}

	// The disaster.
	offline(t, etcd, func(dir string) error {
		return errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(backup)))
	})
	for _, h := range []*lock.Held{early, late} {
		isOver(t, h, 2*ttl)
	}

	// The lock is free, and its next holder is refused by everything.
	s := openSession(t, etcd.Client(t), ttl)
	m := lock.NewMutex(s, "account/1")
	var low guard.Token
	for _, r := range resources {
		err := m.Do(ctx, func(ctx context.Context, h *lock.Held) error {
			if low = h.Token(); low >= late.Token() {
				t.Fatalf("token %d after %d: the tokens did not go back", low, late.Token())
			}
			r.refuses(t, h.Token(), late.Token())
			return r.write(ctx, h.Resource(), h.Token(), "lost")
		})
		if !errors.Is(err, guard.ErrStale) {
			t.Errorf("%s: Do: %v", r.name, err)
			continue
		}
		for _, says := range []string{"restored from a backup", "etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: the error does not say %q: %v", r.name, says, err)
			}
		}
	}

	// Restoring once more without a bump changes nothing. A hold that outlives a restore keeps its token, and is refused.
	holding := held(t, s, "account/1")
	snapshot := filepath.Join(t.TempDir(), "snapshot.db")
	save(t, etcd.Client(t), snapshot)
	restore(t, etcdutl, etcd, snapshot)
	again := held(t, openSession(t, etcd.Client(t), ttl), "another")
	for _, r := range resources {
		r.refuses(t, again.Token(), late.Token())
		r.refuses(t, holding.Token(), late.Token())
	}

	// The cure.
	restore(t, etcdutl, etcd, snapshot, "--bump-revision=1000000000", "--mark-compacted")
	for _, r := range resources {
		r.refuses(t, holding.Token(), late.Token())
	}
	_ = holding.Unlock() // whether it was lost depends on what its session has seen
	cured := held(t, openSession(t, etcd.Client(t), ttl), "account/1")
	if cured.Token() <= late.Token()+1_000_000_000-100 {
		t.Errorf("token %d after the restore, and %d before", cured.Token(), late.Token())
	}
	for _, r := range resources {
		r.mustWrite(t, cured, "wednesday")
		// Who wrote before any of it is fenced now, by the same rule as ever.
		for _, tok := range []guard.Token{first.Token(), low, again.Token(), late.Token()} {
			r.refuses(t, tok, cured.Token())
		}
		if got := r.read(t); got != "wednesday" {
			t.Errorf("%s holds %q at the end", r.name, got)
		}
	}
}

// isOver waits until the holder knows that its lock is lost with its session, and sees that it stays so.
func isOver(t *testing.T, h *lock.Held, within time.Duration) {
	t.Helper()
	select {
	case <-h.Context().Done():
	case <-time.After(within):
		t.Fatalf("the holder with token %d still trusts its lock after %v", h.Token(), within)
	}
	if err := h.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, session.ErrExpired) {
		t.Errorf("the holder with token %d: %v; want the end of its session", h.Token(), err)
	}
}
