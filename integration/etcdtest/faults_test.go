package etcdtest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// faulty returns a client with faults and one without, on one server.
func faulty(t *testing.T) (f *etcdtest.Faults, behind, direct *clientv3.Client) {
	t.Helper()
	cluster := etcdtest.Start(t, nil)
	f = new(etcdtest.Faults)
	return f, cluster.Client(t, f.Apply), cluster.Client(t)
}

func TestLostReplyLeavesAnAppliedPut(t *testing.T) {
	f, behind, direct := faulty(t)
	f.LoseReplies("Put", 1)
	if _, err := behind.Put(t.Context(), "a", "1"); status.Code(err) != codes.Unavailable {
		t.Errorf("put: %v", err)
	}
	if got := get(t, direct, "a"); got != "1" {
		t.Errorf("a = %q", got)
	}
	if n := f.Count("Put").Calls; n != 1 {
		t.Errorf("the put was sent %d times", n)
	}
	put(t, behind, "a", "2")
}

// Who compares counts before and after wants to know of what may have gone out.
func TestCallWhoseContextIsOverIsNoAttempt(t *testing.T) {
	f, behind, _ := faulty(t)
	put(t, behind, "a", "1")
	before := f.Count("")
	f.LoseReplies("Put", 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := behind.Put(ctx, "a", "2"); err == nil {
		t.Error("put without an error")
	}
	if now := f.Count(""); now != before {
		t.Errorf("counts %+v, then %+v", before, now)
	}
	if _, err := behind.Put(t.Context(), "a", "3"); status.Code(err) != codes.Unavailable {
		t.Errorf("the call used up the rule: %v", err)
	}
}

// What the documentation of Faults says about clientv3 holds for the version in use.
func TestClientRetriesAreAsDocumented(t *testing.T) {
	cluster := etcdtest.Start(t, nil)
	unavailable := status.Error(codes.Unavailable, "injected")
	for _, x := range []struct {
		method string
		err    error
		again  bool
	}{
		{"Range", unavailable, true},
		{"Put", unavailable, false},
		{"Txn", unavailable, false},
		{"DeleteRange", unavailable, false},
		{"LeaseGrant", unavailable, true},
		{"LeaseRevoke", unavailable, true},
		{"Put", status.Error(codes.DeadlineExceeded, "injected"), true},
		{"Txn", status.Error(codes.DeadlineExceeded, "injected"), true},
		{"Txn", status.Error(codes.Canceled, "injected"), true},
		{"Txn", errors.New("of no known kind"), false},
	} {
		var f etcdtest.Faults
		client := cluster.Client(t, f.Apply)
		lease, err := client.Grant(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		f.Fail(x.method, 1, x.err)
		before := f.Count(x.method).Calls
		switch x.method {
		case "Range":
			_, err = client.Get(t.Context(), "a")
		case "Put":
			_, err = client.Put(t.Context(), "a", "1")
		case "Txn":
			_, err = client.Txn(t.Context()).Then(clientv3.OpPut("a", "1")).Commit()
		case "DeleteRange":
			_, err = client.Delete(t.Context(), "a")
		case "LeaseGrant":
			_, err = client.Grant(t.Context(), 60)
		case "LeaseRevoke":
			_, err = client.Revoke(t.Context(), lease.ID)
		}
		if again := f.Count(x.method).Calls > before+1; again != x.again || again != (err == nil) {
			t.Errorf("%s after %v: sent again %t, want %t; returned %v", x.method, x.err, again, x.again, err)
		}
	}
}

func TestPausedCallWaitsForRelease(t *testing.T) {
	f, behind, direct := faulty(t)
	for name, pause := range map[string]*etcdtest.Pause{"before": f.Pause("Put"), "after": f.PauseReply("Txn")} {
		done := make(chan error, 1)
		go func() {
			var err error
			if name == "before" {
				_, err = behind.Put(t.Context(), name, "x")
			} else {
				_, err = behind.Txn(t.Context()).Then(clientv3.OpPut(name, "x")).Commit()
			}
			done <- err
		}()
		<-pause.Reached()
		if got, want := get(t, direct, name), map[string]string{"after": "x"}[name]; got != want {
			t.Errorf("%s: %q while paused, want %q", name, got, want)
		}
		select {
		case err := <-done:
			t.Errorf("%s: returned %v while paused", name, err)
		default:
		}
		pause.Release()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := get(t, direct, name); got != "x" {
			t.Errorf("%s: %q at the end", name, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	pause := f.Pause("Put")
	go func() { <-pause.Reached(); cancel() }()
	if _, err := behind.Put(ctx, "never", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled while paused: %v", err)
	}
	if got := get(t, direct, "never"); got != "" {
		t.Errorf("never = %q", got)
	}
}

func TestLatePutLandsAfterItsCallerHasGone(t *testing.T) {
	f, behind, direct := faulty(t)
	late := f.Late("Put")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	if _, err := behind.Put(ctx, "a", "old"); status.Code(err) != codes.Unavailable {
		t.Errorf("put: %v", err)
	}
	cancel()
	put(t, direct, "a", "new")
	if err := late.Release(); err != nil {
		t.Fatal(err)
	}
	if got := get(t, direct, "a"); got != "old" {
		t.Errorf("a = %q, want the late value", got)
	}
}

func TestHookMayRewriteAReply(t *testing.T) {
	f, behind, _ := faulty(t)
	f.Do("Range", 1, func(ctx context.Context, call *etcdtest.Call) error {
		err := call.Send(ctx)
		call.Reply.(*pb.RangeResponse).Header.Revision = 7
		return err
	})
	resp, err := behind.Get(t.Context(), "a")
	if err != nil || resp.Header.Revision != 7 {
		t.Errorf("revision %d, %v", resp.Header.Revision, err)
	}
}

func TestClearEndsAllRules(t *testing.T) {
	f, behind, _ := faulty(t)
	f.Fail("", -1, errors.New("down"))
	for range 3 {
		if _, err := behind.Put(t.Context(), "a", "1"); err == nil {
			t.Error("put got through")
		}
	}
	f.Clear()
	put(t, behind, "a", "1")
}

func TestStreamHooksSeeAndDropMessages(t *testing.T) {
	f, behind, direct := faulty(t)
	var opened, sent, dropped atomic.Int32
	f.Stream("Watch", 1, etcdtest.StreamHook{
		Open: func(context.Context) error { opened.Add(1); return nil },
		Send: func(context.Context, any) error { sent.Add(1); return nil },
		Recv: func(_ context.Context, msg any) error {
			if len(msg.(*pb.WatchResponse).Events) > 0 && dropped.Add(1) == 1 {
				return etcdtest.ErrSkip
			}
			return nil
		},
	})
	w := behind.Watch(t.Context(), "a", clientv3.WithCreatedNotify())
	<-w
	put(t, direct, "a", "dropped")
	put(t, direct, "a", "seen")
	if got := string((<-w).Events[0].Kv.Value); got != "seen" {
		t.Errorf("the watch saw %q", got)
	}
	if opened.Load() != 1 || sent.Load() != 1 || dropped.Load() != 2 {
		t.Errorf("opened %d, sent %d, events %d", opened.Load(), sent.Load(), dropped.Load())
	}
	if c := f.Count("Watch"); c.Calls != 1 || c.Sent != 1 || c.Received != 3 {
		t.Errorf("counts = %+v", c)
	}
}

func TestStreamHookFailsAKeepalive(t *testing.T) {
	f, behind, direct := faulty(t)
	lease, err := direct.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	// KeepAliveOnce goes on by itself after Unavailable and Internal.
	lost := status.Error(codes.FailedPrecondition, "injected")
	f.Stream("LeaseKeepAlive", 1, etcdtest.StreamHook{Recv: func(context.Context, any) error { return lost }})
	if _, err := behind.KeepAliveOnce(t.Context(), lease.ID); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("keepalive: %v", err)
	}
	if _, err := behind.KeepAliveOnce(t.Context(), lease.ID); err != nil {
		t.Errorf("next keepalive: %v", err)
	}
}
