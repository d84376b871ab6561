package etcdguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc/codes"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/etcdguard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// expectRefused checks an error after which nothing was applied, and that the mark of "r" is still 5.
func expectRefused(t *testing.T, g *etcdguard.Guard, err, want error, text string) {
	t.Helper()
	if err == nil || errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) ||
		want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) || !strings.HasPrefix(err.Error(), "etcdguard: ") {
		t.Errorf("the error is %v; want a certain refusal: %v, with %q", err, want, text)
	}
	expectMark(t, g, "r", 5)
}

func TestWhatEtcdRefusesIsNotUnknown(t *testing.T) {
	p := prefix(t)
	g := newGuard(t, direct, p)
	mustDo(t, g, "r", 5)
	put := clientv3.OpPut(p+"data", "mine")
	for name, c := range map[string]struct {
		op   clientv3.Op
		want error
	}{
		"put twice":            {put, rpctypes.ErrDuplicateKey},
		"put and delete":       {clientv3.OpDelete(p, clientv3.WithRange(p+"e")), rpctypes.ErrDuplicateKey},
		"lease that is none":   {clientv3.OpPut(p+"leased", "x", clientv3.WithLease(4711)), rpctypes.ErrLeaseNotFound},
		"no value to keep":     {clientv3.OpPut(p+"absent", "", clientv3.WithIgnoreValue()), rpctypes.ErrKeyNotFound},
		"revision to come":     {clientv3.OpGet(p+"data", clientv3.WithRev(1<<40)), rpctypes.ErrFutureRev},
		"too large for etcd":   {clientv3.OpPut(p+"large", strings.Repeat("x", 1_700_000)), rpctypes.ErrRequestTooLarge},
		"too large for client": {clientv3.OpPut(p+"large", strings.Repeat("x", 3<<20)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			expectRefused(t, g, g.Do(t.Context(), "r", 6, put, c.op), c.want, "nothing was applied")
			expect(t, p+"data", "", 0)
		})
	}
	mustDo(t, g, "r", 5, put)
}

func TestRefusalAfterALostReplyIsUnknownUnlessTheMarkTells(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(*etcdtest.Faults)
		want error
	}{
		{"applied", func(f *etcdtest.Faults) { afterApplying(f, codes.Unavailable, func() {}) }, nil},
		{"perhaps under way", func(f *etcdtest.Faults) { f.Late("Txn") }, guard.ErrUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := prefix(t)
			faults, client := faulty(t)
			g := newGuard(t, client, p)
			mustDo(t, g, "r", 5)
			c.lose(faults)
			faults.Fail("Txn", 1, rpctypes.ErrGRPCPermissionDenied) // the right was withdrawn meanwhile
			if err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine")); !errors.Is(err, c.want) {
				t.Errorf("Do = %v; want %v", err, c.want)
			}
		})
	}
}

// etcd looks at its quota twice: before a transaction, and again after it has applied it, when it still answers that
// there is no space. https://github.com/etcd-io/etcd/blob/main/server/etcdserver/apply/quota.go
func TestNoSpaceDoesNotProveThatNothingWasApplied(t *testing.T) {
	for _, sent := range []bool{false, true} {
		for _, readable := range []bool{false, true} {
			t.Run(fmt.Sprintf("applied %t, mark readable %t", sent, readable), func(t *testing.T) {
				p := prefix(t)
				faults, client := faulty(t)
				g := newGuard(t, client, p)
				mustDo(t, g, "r", 5)
				faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
					if sent {
						if err := call.Send(ctx); err != nil {
							return err
						}
					}
					return rpctypes.ErrGRPCNoSpace
				})
				if !readable {
					faults.Fail("Range", 1, rpctypes.ErrGRPCPermissionDenied)
				}
				err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"))
				switch {
				case !readable:
					if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, rpctypes.ErrNoSpace) {
						t.Errorf("Do = %v; want ErrUnknown and ErrNoSpace", err)
					}
				case sent && err != nil:
					t.Errorf("Do = %v; want nil, since it was applied", err)
				case !sent:
					expectRefused(t, g, err, rpctypes.ErrNoSpace, "nothing was applied")
				}
			})
		}
	}
}

func TestEtcdWithoutSpaceRefusesAndRecovers(t *testing.T) {
	t.Parallel()
	full := etcdtest.Start(t, &etcdtest.Options{Configure: func(c *embed.Config) { c.QuotaBackendBytes = 1 << 20 }})
	client := full.Client(t)
	g := newGuard(t, client, "/")
	ctx := t.Context()
	mustDo(t, g, "r", 5, clientv3.OpPut("data", "mine"))
	for i := range 100 {
		if _, err := client.Put(ctx, fmt.Sprint("fill", i), strings.Repeat("x", 100_000)); errors.Is(err, rpctypes.ErrNoSpace) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	expectRefused(t, g, g.Do(ctx, "r", 6, clientv3.OpPut("data", "more")), rpctypes.ErrNoSpace, "nothing was applied")
	// Even what needs no space itself: the mark is put.
	expectRefused(t, g, g.Do(ctx, "r", 6, clientv3.OpDelete("data")), rpctypes.ErrNoSpace, "nothing was applied")
	expectRefused(t, g, g.Seal(ctx, "r", 6), rpctypes.ErrNoSpace, "nothing was applied")

	if _, err := client.Delete(ctx, "fill", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if _, err := full.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Defragment(ctx, full.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	mustDo(t, g, "r", 6, clientv3.OpPut("data", "more"))
	expectMark(t, g, "r", 6)
}

func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	secured := etcdtest.Start(t, nil)
	ctx := t.Context()
	if err := secured.EnableAuth(ctx, "secret", etcdtest.User{Name: "writer", Password: "w", Prefix: "data/"},
		etcdtest.User{Name: "marker", Password: "m", Prefix: "/fencedlock-marks/"}); err != nil {
		t.Fatal(err)
	}
	root, err := etcdguard.New(secured.Client(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, root, "r", 5, clientv3.OpPut("data/x", "root's"))
	for user, password := range map[string]string{"writer": "w", "marker": "m"} {
		g, err := etcdguard.New(secured.Client(t, etcdtest.As(user, password)), nil)
		if err != nil {
			t.Fatal(err)
		}
		expectRefused(t, root, g.Do(ctx, "r", 6, clientv3.OpPut("data/x", user)), rpctypes.ErrPermissionDenied, "/fencedlock-marks/r")
	}
}
