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
	"google.golang.org/grpc/status"

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

// denied are refusals of the transaction's repetition: by a right that was withdrawn meanwhile, by an overload, by a full disk.
var denied = []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCNoSpace}

// What is refused in the end may have been applied before, by a sending that nobody saw.
func TestRefusalOfARepetitionSaysNothingOfTheFirstSending(t *testing.T) {
	for _, c := range losing {
		for _, refused := range denied {
			for _, readable := range []bool{true, false} {
				t.Run(fmt.Sprintf("%v, %.30v, readable %t", c, refused, readable), func(t *testing.T) {
					p := prefix(t)
					faults, client := faulty(t)
					g := newGuard(t, client, p)
					mustDo(t, g, "r", 5)
					afterApplying(faults, c, func() {})
					faults.Fail("Txn", -1, refused)
					if !readable {
						faults.Fail("Range", -1, rpctypes.ErrGRPCPermissionDenied)
					}
					err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"))
					if readable && err != nil || !readable && !errors.Is(err, guard.ErrUnknown) {
						t.Errorf("Do = %v; it was applied", err)
					}
					expect(t, p+"data", "mine", 1)
				})
			}
		}
	}
}

// "Nothing was applied" means that nothing will be, however late the first sending arrives.
func TestRefusedWriteIsNotAppliedLater(t *testing.T) {
	for _, c := range losing {
		for _, refusals := range []int{1, -1} { // of the repetition, and of all that follows
			t.Run(fmt.Sprint(c, ", refusals ", refusals), func(t *testing.T) {
				p := prefix(t)
				faults, client := faulty(t)
				g := newGuard(t, client, p)
				mustDo(t, g, "r", 5)
				release, arrived := make(chan struct{}), make(chan error, 1)
				faults.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
					go func() {
						<-release
						arrived <- call.Send(context.WithoutCancel(ctx))
					}()
					return status.Error(c, "a proxy lost patience")
				})
				faults.Fail("Txn", refusals, rpctypes.ErrGRPCPermissionDenied)
				err := g.Do(t.Context(), "r", 6, clientv3.OpPut(p+"data", "mine"))
				close(release)
				if late := <-arrived; late != nil {
					t.Fatal(late)
				}
				if refusals == 1 {
					expectRefused(t, g, err, rpctypes.ErrPermissionDenied, "nothing was applied")
					expect(t, p+"data", "", 0)
				} else {
					expect(t, p+"data", "mine", 1) // it was really under way
					if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, rpctypes.ErrPermissionDenied) {
						t.Errorf("Do = %v; want ErrUnknown, and the refusal", err)
					}
				}
			})
		}
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
				case !sent: // and there is space again
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
	for i, full := 0, false; !full; i++ { // etcd counts what it has committed, and raises the alarm after its first refusal
		if _, err := client.Put(ctx, fmt.Sprint("fill", i%20), strings.Repeat("x", 100_000)); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatal(err)
		}
		alarms, err := client.AlarmList(ctx)
		if err != nil {
			t.Fatal(err)
		}
		full = len(alarms.Alarms) > 0
	}
	for op, err := range map[string]error{
		"Do":                            g.Do(ctx, "r", 6, clientv3.OpPut("data", "more")),
		"Do that needs no space itself": g.Do(ctx, "r", 6, clientv3.OpDelete("data")), // the mark is put
		"Seal":                          g.Seal(ctx, "r", 6),
	} {
		// The mark cannot be put, so nothing can stop what the client may have sent before.
		if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("%s = %v; want ErrUnknown and ErrNoSpace", op, err)
		}
	}
	if err := g.Do(ctx, "new", 6, clientv3.OpPut("data", "more")); !errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("Do on a resource without a mark = %v; want ErrNoSpace, since nothing but the mark was sent", err)
	}
	expectMark(t, g, "r", 5)

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
