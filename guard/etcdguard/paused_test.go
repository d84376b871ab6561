//go:build unix

package etcdguard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

func runRole() { child.Main(map[string]child.Role{"writer": writer}) }

// writer is a process that locks "page" and puts its name there when it is told so, long after it has looked whether it holds
// the lock.
func writer(self *child.Self) error {
	endpoint, prefix, name, guarded := self.Args[0], self.Args[1], self.Args[2], self.Args[3] == "guarded"
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	defer client.Close()
	g, err := etcdguard.New(client, &etcdguard.Options{Prefix: prefix + "marks/"})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := session.New(ctx, client, &session.Options{TTL: 2 * time.Second, Namespace: prefix + "locks/"})
	if err != nil {
		return err
	}
	h, err := lock.NewMutex(s, "page").Lock(ctx)
	if err != nil {
		return err
	}
	if guarded {
		err = g.Seal(ctx, h.Resource(), h.Token())
	}
	self.Say("locked %d, lost %t, %v", int64(h.Token()), h.Err() != nil, err)
	for command := range self.Commands() {
		switch {
		case command == "end":
			return errors.Join(s.Close(), client.Close())
		case guarded:
			err = g.Do(ctx, h.Resource(), h.Token(), clientv3.OpPut(prefix+"page", name))
		default:
			_, err = client.Put(ctx, prefix+"page", name)
		}
		var stale *guard.StaleError
		if errors.As(err, &stale) {
			self.Say("stale %d, lost %t, <nil>", int64(stale.Highest), h.Err() != nil)
		} else {
			self.Say("wrote, lost %t, %v", h.Err() != nil, err)
		}
	}
	return nil
}

// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html, https://github.com/etcd-io/etcd/issues/10811,
// https://jepsen.io/blog/2020-01-30-etcd-3.4.3: a holder that was paused after its last look at the lock writes when its
// successor has written.
func TestPausedHolderCannotOverwriteItsSuccessor(t *testing.T) {
	page, token, seen := pausedHolder(t, "guarded")
	if page != "B" {
		t.Errorf("the page is %q; want the successor's", page)
	}
	if want := "stale " + token; seen != want {
		t.Errorf("the paused holder said %q; want %q", seen, want)
	}
}

func TestPausedHolderOverwritesItsSuccessorWithoutAGuard(t *testing.T) {
	if page, _, seen := pausedHolder(t, "unguarded"); page != "A" || seen != "wrote" {
		t.Errorf("the page is %q, the paused holder said %q; without a guard its late write lands", page, seen)
	}
}

// pausedHolder returns what is on the page at the end, the successor's token, and what the paused holder was told.
func pausedHolder(t *testing.T, mode string) (page, token, seen string) {
	t.Parallel()
	p := prefix(t)
	const within = 30 * time.Second
	start := func(name string) (*child.Process, string) {
		c := child.Start(t, "writer", cluster.Endpoints()[0], p, name, mode)
		said := c.Expect("locked ", within)
		token, ok := strings.CutSuffix(said, ", lost false, <nil>")
		if !ok {
			t.Fatalf("%s: locked %s", name, said)
		}
		return c, token
	}
	a, _ := start("A")
	a.Stop()
	a.Send("write") // what A does next, whenever that is

	b, token := start("B") // waits until A's lease has lapsed
	b.Send("write")
	if said := b.Expect("wrote", within); said != ", lost false, <nil>" {
		t.Fatalf("B: wrote%s", said)
	}
	a.Continue()
	seen, ok := strings.CutSuffix(a.Expect("", within), ", lost true, <nil>")
	if !ok {
		t.Errorf("A said %q; it has lost the lock", seen)
	}
	page = get(t, p+"page").value
	for _, c := range []*child.Process{b, a} {
		c.Send("end")
		_ = c.Wait(within) // A's session has expired, which is an error
	}
	return page, token, seen
}
