package lease

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/internal/clock"
)

// server keeps leases as etcd does, in the time of a synctest bubble, and lets a test decide what the network does to each
// message. It counts a lease from the arrival of the request.
type server struct {
	pb.LeaseClient // nil: a call that no test expects panics

	least time.Duration // the smallest TTL that is granted

	// What happens to the n-th message of each kind, n from 0; nil means that it arrives at once and is answered.
	grant, renew, revoke func(n int) fate
	open                 func(ctx context.Context, n int) error

	wg      sync.WaitGroup // messages under way
	mu      sync.Mutex
	expiry  map[int64]time.Time     // guarded by mu
	ttl     map[int64]time.Duration // guarded by mu
	seen    map[string][]time.Time  // when messages were sent, by kind; guarded by mu
	streams []context.Context       // of the streams; guarded by mu
}

// fate is what happens to one message.
type fate struct {
	request, reply time.Duration // how long each is under way
	dropped, lost  bool          // the request never arrives, the reply never does
	err            error         // the reply, instead of the real one
	refused        error         // the reply to a request that has no effect
	hangs          bool          // sending it blocks until the stream ends
}

func newServer() *server {
	return &server{expiry: make(map[int64]time.Time), ttl: make(map[int64]time.Duration), seen: make(map[string][]time.Time)}
}

// sent notes that a message of this kind goes out and returns its fate.
func (s *server) sent(kind string, decide func(n int) fate) fate {
	s.mu.Lock()
	n := len(s.seen[kind])
	s.seen[kind] = append(s.seen[kind], time.Now())
	s.mu.Unlock()
	if decide == nil {
		return fate{}
	}
	return decide(n)
}

// times returns when messages of the kind were sent: grant, renew, revoke or open.
func (s *server) times(kind string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.seen[kind]...)
}

func (s *server) count(kind string) int { return len(s.times(kind)) }

// left returns how long the server will keep the lease; 0 means that it has gone.
func (s *server) left(id clientv3.LeaseID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.expiry[int64(id)]))
}

// leases returns how many leases are alive.
func (s *server) leases() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.expiry {
		if time.Until(at) > 0 {
			n++
		}
	}
	return n
}

// live returns how many streams are open.
func (s *server) live() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ctx := range s.streams {
		if ctx.Err() == nil {
			n++
		}
	}
	return n
}

func (s *server) LeaseGrant(ctx context.Context, in *pb.LeaseGrantRequest, _ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return unary(ctx, &s.wg, s.sent("grant", s.grant), func() (*pb.LeaseGrantResponse, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if time.Until(s.expiry[in.ID]) > 0 {
			return nil, rpctypes.ErrGRPCLeaseExist
		}
		ttl := max(time.Duration(in.TTL)*time.Second, s.least)
		s.ttl[in.ID], s.expiry[in.ID] = ttl, time.Now().Add(ttl)
		return &pb.LeaseGrantResponse{ID: in.ID, TTL: int64(ttl / time.Second)}, nil
	})
}

func (s *server) LeaseRevoke(ctx context.Context, in *pb.LeaseRevokeRequest, _ ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return unary(ctx, &s.wg, s.sent("revoke", s.revoke), func() (*pb.LeaseRevokeResponse, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if time.Until(s.expiry[in.ID]) <= 0 {
			return nil, rpctypes.ErrGRPCLeaseNotFound
		}
		delete(s.expiry, in.ID)
		return &pb.LeaseRevokeResponse{}, nil
	})
}

// unary carries a request to the server and its reply back. The request goes on when the caller has given up.
func unary[T any](ctx context.Context, wg *sync.WaitGroup, f fate, apply func() (*T, error)) (*T, error) {
	type answer struct {
		resp *T
		err  error
	}
	arrived := make(chan answer, 1)
	wg.Go(func() {
		if f.dropped {
			return
		}
		time.Sleep(f.request)
		a := answer{err: f.refused}
		if f.refused == nil {
			a.resp, a.err = apply()
		}
		if f.err != nil {
			a = answer{err: f.err}
		}
		if f.lost {
			return
		}
		time.Sleep(f.reply)
		arrived <- a
	})
	select {
	case a := <-arrived:
		return a.resp, a.err
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// keepalives is one keepalive stream.
type keepalives struct {
	grpc.ClientStream
	ctx     context.Context
	server  *server
	replies chan keepalive
}

type keepalive struct {
	resp *pb.LeaseKeepAliveResponse
	err  error
}

func (s *server) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	s.mu.Lock()
	n := len(s.seen["open"])
	s.seen["open"] = append(s.seen["open"], time.Now())
	s.streams = append(s.streams, ctx)
	s.mu.Unlock()
	if s.open != nil {
		if err := s.open(ctx, n); err != nil {
			return nil, err
		}
	}
	return &keepalives{ctx: ctx, server: s, replies: make(chan keepalive, 1000)}, nil
}

func (k *keepalives) Send(in *pb.LeaseKeepAliveRequest) error {
	f := k.server.sent("renew", k.server.renew)
	if f.hangs {
		<-k.ctx.Done()
		return io.EOF
	}
	k.server.wg.Go(func() {
		if f.dropped {
			return
		}
		time.Sleep(f.request)
		a := keepalive{err: f.refused}
		if f.refused == nil {
			a.resp = k.server.refresh(in.ID)
		}
		if f.err != nil {
			a = keepalive{err: f.err}
		}
		if f.lost {
			return
		}
		time.Sleep(f.reply)
		k.replies <- a
	})
	return nil
}

func (s *server) refresh(id int64) *pb.LeaseKeepAliveResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.expiry[id]) <= 0 {
		return &pb.LeaseKeepAliveResponse{ID: id}
	}
	s.expiry[id] = time.Now().Add(s.ttl[id])
	return &pb.LeaseKeepAliveResponse{ID: id, TTL: int64(s.ttl[id] / time.Second)}
}

func (k *keepalives) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case a := <-k.replies:
		return a.resp, a.err
	case <-k.ctx.Done():
		return nil, status.FromContextError(k.ctx.Err()).Err()
	}
}

// unavailable is what a broken connection looks like.
var unavailable = status.Error(codes.Unavailable, "the connection is broken")

// pausable is a clock that can be ahead of the bubble's timers, as after the sleep of a machine.
type pausable struct {
	start time.Time
	rate  float64 // its speed against that of the bubble
	mu    sync.Mutex
	ahead time.Duration // guarded by mu
}

func newPausable() *pausable { return &pausable{start: time.Now(), rate: 1} }

func (p *pausable) now() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(float64(time.Since(p.start))*p.rate) + p.ahead
}

func (p *pausable) jump(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead += d
}

// config returns what a lease of this length is made from, with a client that has no connection.
func config(t *testing.T, ttl time.Duration) Config {
	t.Helper()
	client := clientv3.NewCtxClient(context.Background()) // t's own context ends before the lease is closed
	t.Cleanup(func() { client.Close() })
	return Config{Client: client, TTL: ttl, Owner: "test", Namespace: "/test/", Logger: zap.NewNop()}
}

// opened returns a lease of s whose clock is c, or that of the bubble if c is nil. It is closed at the end of the test.
func opened(t *testing.T, s *server, c *pausable, ttl time.Duration) *Lease {
	t.Helper()
	l, err := openWithin(t, openBound, s, c, ttl)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

// openWithin gives the call that long.
func openWithin(t *testing.T, bound time.Duration, s *server, c *pausable, ttl time.Duration) (*Lease, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(onClock(t.Context(), c), bound)
	defer cancel()
	l, err := open(ctx, config(t, ttl), s)
	t.Cleanup(func() {
		synctest.Wait() // an abandoned lease's revocation may not have come to the server yet
		s.wg.Wait()
	})
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return l, err
}

func onClock(ctx context.Context, c *pausable) context.Context {
	if c == nil {
		c = newPausable()
	}
	return clock.With(ctx, c.now)
}
