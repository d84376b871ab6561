package lease

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// stream is the keepalive stream of a lease. It is dropped at the first
// failure, so that a late reply is never taken for that to a newer request and
// the next attempt can go to another endpoint.
type stream struct {
	rpc    pb.Lease_LeaseKeepAliveClient
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *stream) drop() {
	if s.cancel != nil {
		s.cancel()
	}
	*s = stream{}
}

// renewLoop renews the lease at a third of its length, counted from the sending
// of the last renewal that was acknowledged, and sooner after a failure.
func (l *Lease) renewLoop(ctx context.Context) {
	var s stream
	defer s.drop()
	timer := time.NewTimer(max(0, l.Remaining()-(l.ttl*2/3-margin(l.ttl))))
	defer timer.Stop()
	for failures := 0; ; {
		var waiter chan struct{}
		select {
		case <-ctx.Done():
			return
		case waiter = <-l.renewNow:
		case <-timer.C:
		}
		sent := l.now()
		err := l.renew(ctx, &s)
		if waiter != nil {
			close(waiter)
		}
		if err == nil {
			failures = 0
			timer.Reset(max(0, l.ttl/3-(l.now()-sent)))
			continue
		}
		if ctx.Err() != nil {
			return
		}
		l.failed(err)
		l.cfg.Logger.Warn("session: a renewal failed and is tried again", zap.Error(err),
			zap.Int64("lease", int64(l.id)), zap.Duration("remaining", l.Remaining()))
		timer.Reset(backoff(l.ttl, failures))
		failures++
	}
}

// RenewNow renews the lease and waits for the outcome of the attempt, so that
// Err then knows whether the server still has the lease.
func (l *Lease) RenewNow(ctx context.Context) {
	done := make(chan struct{})
	select {
	case l.renewNow <- done:
	case <-ctx.Done():
		return
	case <-l.ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}

// renew makes one attempt: one send and one receive, together limited. The
// client's own KeepAlive counts from the arrival of the reply and looks at the
// deadline once a second; its KeepAliveOnce repeats without limit or pause.
func (l *Lease) renew(ctx context.Context, s *stream) error {
	limit, sent := l.patience.limit(), l.now()
	resp, err := l.exchange(ctx, s, limit)
	took := l.now() - sent
	if err != nil {
		s.drop()
		l.patience.failed(limit, took)
		return err
	}
	l.patience.answered(took)
	if resp.TTL <= 0 {
		err := fmt.Errorf("%w: lease %x is no longer known to etcd: it lapsed there or was revoked", ErrExpired, int64(l.id))
		l.end(err)
		return err
	}
	l.acknowledged(sent, time.Duration(resp.TTL)*time.Second)
	return nil
}

func (l *Lease) exchange(ctx context.Context, s *stream, limit time.Duration) (*pb.LeaseKeepAliveResponse, error) {
	if s.cancel == nil {
		// A member without a leader cannot renew, so it is to say so at once.
		s.ctx, s.cancel = context.WithCancel(clientv3.WithRequireLeader(ctx))
	}
	timer := time.AfterFunc(limit, s.cancel)
	resp, err := l.sendAndReceive(s)
	if !timer.Stop() && err != nil && ctx.Err() == nil {
		err = l.noAnswer()
	}
	return resp, err
}

func (l *Lease) sendAndReceive(s *stream) (_ *pb.LeaseKeepAliveResponse, err error) {
	if s.rpc == nil {
		if s.rpc, err = l.remote.LeaseKeepAlive(s.ctx); err != nil {
			return nil, err
		}
	}
	// Send reports io.EOF for a broken stream; Recv has the reason.
	_ = s.rpc.Send(&pb.LeaseKeepAliveRequest{ID: int64(l.id)})
	return s.rpc.Recv()
}
