package etcdguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// losing are the errors that callers see, or that make the client send again in secret, when a reply is lost.
var losing = []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.Canceled, codes.DeadlineExceeded}

// afterApplying lets the next transaction be applied, runs then, and loses the reply by an error of the code.
func afterApplying(f *etcdtest.Faults, c codes.Code, then func()) {
	f.Do("Txn", 1, func(ctx context.Context, call *etcdtest.Call) error {
		if err := call.Send(ctx); err != nil {
			return err
		}
		then()
		return status.Error(c, "the reply is lost")
	})
}

// insteadOfSending runs then in place of the next transaction.
func insteadOfSending(f *etcdtest.Faults, c codes.Code, then func()) {
	f.Do("Txn", 1, func(context.Context, *etcdtest.Call) error {
		then()
		return status.Error(c, "the request is lost")
	})
}

// A write whose reply was lost is sent again, by the client in secret or by whoever called it, and is done twice, or a
// compare-and-swap fails on its own success: https://github.com/etcd-io/etcd/issues/18424,
// https://github.com/etcd-io/etcd/issues/7202, https://github.com/etcd-io/etcd/issues/8998
func TestWriteWhoseReplyIsLostIsAppliedOnce(t *testing.T) {
	for _, c := range losing {
		for _, lose := range []struct {
			what string
			by   func(*etcdtest.Faults, codes.Code, func())
		}{{"reply", afterApplying}, {"request", insteadOfSending}} {
			t.Run(fmt.Sprint(lose.what, " ", c), func(t *testing.T) {
				p := prefix(t)
				faults, client := faulty(t)
				g := newGuard(t, client, p)
				mustDo(t, g, "r", 5)
				for i, tok := range []guard.Token{5, 6} { // leaving the mark, raising it
					lose.by(faults, c, func() {})
					if err := g.Do(t.Context(), "r", tok, clientv3.OpPut(p+"data", "mine")); err != nil {
						t.Errorf("Do with token %d = %v; want nil, since etcd can be asked", tok, err)
					}
					expect(t, p+"data", "mine", int64(i+1))
				}
				expectMark(t, g, "r", 6)
			})
		}
	}
}

// The same without a guard: the client itself puts twice.
func TestPutWhoseReplyIsLostIsDoneTwiceWithoutAGuard(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	faults.Do("Put", 1, func(ctx context.Context, call *etcdtest.Call) error {
		if err := call.Send(ctx); err != nil {
			return err
		}
		return status.Error(codes.DeadlineExceeded, "the reply is lost")
	})
	if _, err := client.Put(t.Context(), p+"data", "mine"); err != nil {
		t.Fatal(err)
	}
	expect(t, p+"data", "mine", 2)
}

// Between a write whose reply was lost and its repetition others write. The repetition is refused by a mark that does not
// show the write any more, or is higher; this says nothing about the first sending.
func TestLostReplyIsResolvedThoughOthersHaveWrittenSince(t *testing.T) {
	for _, c := range losing {
		for _, then := range []struct {
			what string
			tok  guard.Token // of the others
		}{{"with the same token", 5}, {"with a higher one", 9}} {
			t.Run(fmt.Sprint(c, " ", then.what), func(t *testing.T) {
				p := prefix(t)
				faults, client := faulty(t)
				g := newGuard(t, client, p)
				mustDo(t, g, "r", 5)
				afterApplying(faults, c, func() {
					other := newGuard(t, direct, p)
					mustDo(t, other, "r", then.tok, clientv3.OpPut(p+"data", "theirs"))
					mustDo(t, other, "r", then.tok, clientv3.OpPut(p+"data", "theirs, later"))
				})
				if err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine")); err != nil {
					t.Errorf("Do = %v; want nil: it was applied, and then the others'", err)
				}
				expect(t, p+"data", "theirs, later", 3)
				expectMark(t, g, "r", then.tok)
			})
		}
	}
}

// The other way round: the request was lost, and a newer holder has written when it is sent again.
func TestLostRequestIsStaleOnlyWhenTheMarkProvesThatItWasNotApplied(t *testing.T) {
	for _, c := range losing {
		t.Run(c.String(), func(t *testing.T) {
			p := prefix(t)
			faults, client := faulty(t)
			g := newGuard(t, client, p)
			mustDo(t, g, "r", 5)
			insteadOfSending(faults, c, func() {
				mustDo(t, newGuard(t, direct, p), "r", 9, clientv3.OpPut(p+"data", "theirs"))
			})
			err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"))
			var stale *guard.StaleError
			if !errors.As(err, &stale) || stale.Highest != 9 || errors.Is(err, guard.ErrUnknown) {
				t.Errorf("Do = %v; want stale by 9", err)
			}
			expect(t, p+"data", "theirs", 1)
		})
	}
}

// The request arrives after its repetition was applied, or after a newer holder's write.
func TestLateTransactionIsNotAppliedAfterItsRepetition(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	mustDo(t, g, "r", 5)
	late := faults.Late("Txn")
	mustDo(t, g, "r", 5, clientv3.OpPut(p+"data", "mine"))
	mustDo(t, g, "r", 5, clientv3.OpPut(p+"data", "mine, later"))
	if err := late.Release(); err != nil {
		t.Fatal(err)
	}
	expect(t, p+"data", "mine, later", 2)
	mustDo(t, g, "r", 6, clientv3.OpPut(p+"data", "newer"))
	expect(t, p+"data", "newer", 3)
}

// What is under way when Do gives up lands whenever it likes, unless the holder, or a later one, seals.
func TestSealEndsWhatIsUnderWay(t *testing.T) {
	for _, seal := range []guard.Token{0, 5, 6} {
		t.Run(fmt.Sprint("sealed by ", int64(seal)), func(t *testing.T) {
			p := prefix(t)
			faults, client := faulty(t)
			g := newGuard(t, client, p)
			mustDo(t, g, "r", 5, clientv3.OpPut(p+"data", "before"))
			late := faults.Late("Txn")
			faults.Fail("Txn", 3, etcdtest.ErrReplyLost)
			err := g.Do(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"))
			if !errors.Is(err, guard.ErrUnknown) || errors.Is(err, guard.ErrStale) {
				t.Fatalf("Do = %v; want ErrUnknown", err)
			}
			if calls := faults.Count("Txn").Calls; calls != 2+4 {
				t.Errorf("%d transactions were sent; want the first one, two retries, and one to move the mark on", calls-2)
			}
			expect(t, p+"data", "before", 1)
			if seal != 0 {
				if err := newGuard(t, direct, p).Seal(t.Context(), "r", seal); err != nil {
					t.Fatal(err)
				}
			}
			if err := late.Release(); err != nil {
				t.Fatal(err)
			}
			if seal == 0 {
				expect(t, p+"data", "mine", 2) // it was really under way
			} else {
				expect(t, p+"data", "before", 1)
			}
		})
	}
}

func TestContextThatEndsBeforeTheReplyLeavesTheOutcomeUnknown(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	mustDo(t, g, "r", 5)
	for _, pause := range []func(string) *etcdtest.Pause{faults.Pause, faults.PauseReply} {
		why := errors.New("the lock is lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := pause("Txn")
		go func() {
			<-stopped.Reached()
			cancel(why)
		}()
		err := g.Do(ctx, "r", 5, clientv3.OpPut(p+"data", "mine"))
		if !errors.Is(err, guard.ErrUnknown) || !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("Do = %v; want ErrUnknown, Canceled and the cause", err)
		}
		_ = stopped.Release()
	}
	expect(t, p+"data", "mine", 1) // the one whose reply was kept back
}

// Answers are lost with the reply.
func TestTxnWhoseAnswersAreLostIsUnknown(t *testing.T) {
	p := prefix(t)
	faults, client := faulty(t)
	g := newGuard(t, client, p)
	mustDo(t, g, "r", 5)
	afterApplying(faults, codes.Unavailable, func() {})
	resp, err := g.Txn(t.Context(), "r", 5, clientv3.OpPut(p+"data", "mine"), clientv3.OpGet(p+"data"))
	if resp != nil || !errors.Is(err, guard.ErrUnknown) || !strings.Contains(err.Error(), "was applied") {
		t.Errorf("Txn = %v, %v; want ErrUnknown", resp, err)
	}
	expect(t, p+"data", "mine", 1)
}
