package lease

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// stream is a keepalive stream, for one request at a time. It is dropped at the
// first failure, so that a late reply is never taken for that to a newer request.
type stream struct {
	rpc    pb.Lease_LeaseKeepAliveClient // nil until it is open
	ctx    context.Context
	cancel context.CancelFunc
}

func newStream(ctx context.Context) *stream {
	// A member without a leader cannot renew, so it is to say so at once.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	return &stream{ctx: ctx, cancel: cancel}
}

func (s *stream) drop() {
	if s != nil {
		s.cancel()
	}
}

// renewal is one request and its outcome.
type renewal struct {
	on   *stream       // the stream to use again, nil if there is none
	sent time.Duration // on the lease's clock
	ttl  time.Duration // what the server says is left; 0: it does not know the lease
	err  error
}

// exchange renews the lease once, on s or, if that is nil, on a new stream. While
// no reply comes the request is sent again, each time on a new stream, which the
// client opens on its next endpoint; the earlier ones may still be answered,
// since a silent connection may be dead or only slow. The stream whose reply came
// first is kept. It returns when that has come, when all have failed, or when ctx
// ends.
//
// The client's own KeepAlive counts from the arrival of the reply and looks at
// the deadline once a second; its KeepAliveOnce repeats without limit or pause.
func (l *Lease) exchange(ctx context.Context, s *stream) (first renewal) {
	if s == nil {
		s = newStream(ctx)
	}
	outcomes := make(chan renewal)
	var open []*stream
	ended := 0
	send := func(s *stream) {
		open = append(open, s)
		go func() { outcomes <- l.attempt(ctx, s) }()
	}
	defer func() {
		for _, s := range open {
			if s != first.on {
				s.drop()
			}
		}
		for ; ended < len(open); ended++ {
			<-outcomes
		}
	}()
	send(s)
	limit := l.patience.limit()
	silent := time.NewTimer(limit)
	defer silent.Stop()
	for {
		select {
		case first = <-outcomes:
			ended++
			if first.err == nil {
				l.patience.answered(l.now() - first.sent)
				return first
			}
			if ended == len(open) || ctx.Err() != nil {
				return first
			}
		case <-silent.C:
			l.failed(l.noAnswer())
			send(newStream(ctx))
			silent.Reset(limit)
		}
	}
}

// attempt sends one request on s and waits for its reply, for half a lease at
// most.
func (l *Lease) attempt(ctx context.Context, s *stream) renewal {
	timer := time.AfterFunc(l.ttl/2, s.cancel)
	sent := l.now()
	l.mu.Lock()
	l.lastSent = sent
	l.mu.Unlock()
	resp, err := l.sendAndReceive(s)
	if !timer.Stop() && err != nil && ctx.Err() == nil {
		err = l.noAnswer()
	}
	if err != nil {
		s.drop()
		return renewal{err: err}
	}
	return renewal{on: s, sent: sent, ttl: time.Duration(max(0, resp.TTL)) * time.Second}
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
