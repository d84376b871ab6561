//go:build unix

package worker

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// sorts are the calls that a lock makes, by what they are for.
var sorts = map[string]func(request any) bool{
	"enqueue":    func(r any) bool { return hasOp(r, func(o *pb.RequestOp) bool { return o.GetRequestPut() != nil }) },
	"release":    func(r any) bool { return isDelete(r) },
	"read":       is[*pb.RangeRequest],
	"renewal":    is[*pb.LeaseKeepAliveRequest], // on a stream
	"grant":      is[*pb.LeaseGrantRequest],
	"revocation": is[*pb.LeaseRevokeRequest],
}

func is[T any](r any) bool {
	_, ok := r.(T)
	return ok
}

func hasOp(r any, fits func(*pb.RequestOp) bool) bool {
	txn, ok := r.(*pb.TxnRequest)
	if !ok {
		return false
	}
	for _, o := range txn.Success {
		if fits(o) {
			return true
		}
	}
	return false
}

// isDelete: etcd's own mutex deletes its key outside of a transaction.
func isDelete(r any) bool {
	return is[*pb.DeleteRangeRequest](r) || hasOp(r, func(o *pb.RequestOp) bool { return o.GetRequestDeleteRange() != nil })
}

// shot is an order to strike calls of one sort.
type shot struct {
	tag  string
	sort string
	left int           // how many more
	late bool          // deliver the request late; else lose the reply
	wait time.Duration // how late
}

// aim strikes the calls of a client of etcd, as ordered, and says "struck TAG" when the first is hit.
type aim struct {
	say  func(format string, args ...any)
	quit <-chan struct{} // what is late is delivered then

	mu      sync.Mutex
	shot    shot           // nothing is left of it: no order; guarded by mu
	pending sync.WaitGroup // late calls
}

// install makes the faults do what is ordered from then on.
func (a *aim) install(f *etcdtest.Faults) {
	f.Do("", -1, a.call)
	f.Stream("LeaseKeepAlive", -1, etcdtest.StreamHook{Send: a.renew, Recv: a.renewed})
}

func (a *aim) order(s shot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shot = s
}

// take returns the order that a call of that sort meets, and counts it.
func (a *aim) take(fits func(shot) bool) (s shot, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shot.left == 0 || !fits(a.shot) {
		return shot{}, false
	}
	a.shot.left--
	return a.shot, true
}

// missed takes back that a call was counted.
func (a *aim) missed(s shot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shot.tag == s.tag {
		a.shot.left++
	}
}

func (a *aim) call(ctx context.Context, call *etcdtest.Call) error {
	s, ok := a.take(func(s shot) bool {
		fits := sorts[s.sort]
		return fits != nil && fits(call.Request)
	})
	if !ok {
		return call.Send(ctx)
	}
	if s.late {
		send := call.Detach(ctx)
		a.pending.Go(func() {
			a.sleep(context.Background(), s.wait)
			_ = send() // it fails, or comes too late, or does harm: that is the test
		})
	} else if err := call.Send(ctx); err != nil {
		a.missed(s)
		return err
	}
	a.say("struck %s", s.tag)
	return etcdtest.ErrReplyLost
}

func renewals(late bool) func(shot) bool {
	return func(s shot) bool { return s.sort == "renewal" && s.late == late }
}

// renew delays a renewal of the lease.
func (a *aim) renew(ctx context.Context, _ any) error {
	if s, ok := a.take(renewals(true)); ok {
		a.say("struck %s", s.tag)
		a.sleep(ctx, s.wait)
	}
	return nil
}

// renewed loses the reply to one.
func (a *aim) renewed(_ context.Context, _ any) error {
	s, ok := a.take(renewals(false))
	if !ok {
		return nil
	}
	a.say("struck %s", s.tag)
	return etcdtest.ErrSkip
}

func (a *aim) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-a.quit:
	}
}
