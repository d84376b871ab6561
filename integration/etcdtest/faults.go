package etcdtest

import (
	"context"
	"errors"
	"path"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Faults puts hooks around the calls of a client, for interleavings that no timing of bytes brings about reliably:
//
//	var faults etcdtest.Faults
//	client := cluster.Client(t, faults.Apply)
//	faults.LoseReplies("Txn", 1) // the next transaction is applied, and its caller told nothing
//
// Methods go by their short names: Range, Put, DeleteRange, Txn, Compact, LeaseGrant, LeaseRevoke, LeaseTimeToLive,
// LeaseKeepAlive, Watch, Authenticate and so on; "" stands for all. Of several rules that fit a call the oldest counts. The
// zero value is ready and lets all pass; one value may serve several clients. Safe for concurrent use.
//
// Hooks sit inside of clientv3's own retry, which therefore sees each error that a hook returns, and each attempt is a call
// of its own here. As of v3.7 it tries again, up to 100 times: on codes.Unavailable what it calls repeatable, which is
// reads and LeaseGrant, LeaseRevoke, LeaseTimeToLive, LeaseLeases; on DeadlineExceeded and Canceled, while the caller's
// context is alive, and on an invalid authentication token everything, puts and transactions as well. Put, DeleteRange
// and Txn are not sent again on Unavailable, so that is the error to use when a write's caller shall see it.
type Faults struct {
	mu     sync.Mutex
	rules  []*rule           // oldest first; guarded by mu
	counts map[string]Counts // guarded by mu
}

// Counts says how often a method was used.
type Counts struct {
	Calls    int // attempts of unary calls, or streams opened; also those that a hook did not let out, not those whose ctx was over
	Sent     int // messages that went out on streams
	Received int // messages that came in on streams
}

// Hook runs in place of a unary call. It returns what the caller gets; call.Send makes the real call.
type Hook func(ctx context.Context, call *Call) error

// StreamHook looks at a stream's life. Nil fields let pass. An error that a field returns is what the caller gets;
// ErrSkip drops the one message and goes on. A field that blocks must heed ctx, the stream's.
type StreamHook struct {
	Open func(ctx context.Context) error          // before the stream is opened
	Send func(ctx context.Context, msg any) error // before a message goes out
	Recv func(ctx context.Context, msg any) error // after one came in; it may be changed in place
}

// ErrSkip, returned by a StreamHook, drops a message.
var ErrSkip = errors.New("etcdtest: skip this message")

// ErrReplyLost is what callers get when a helper of Faults loses a reply: codes.Unavailable, as after a broken connection.
// The call may have been carried out.
var ErrReplyLost = status.Error(codes.Unavailable, "etcdtest: reply lost")

// rule is one of unary and stream.
type rule struct {
	method string
	left   int // how often it still applies; negative: always
	unary  Hook
	stream *StreamHook
}

// Apply adds the hooks to a client's configuration. It is an Edit.
func (f *Faults) Apply(cfg *clientv3.Config) {
	// The chained interceptors come after the one that clientv3 sets for its retry.
	cfg.DialOptions = append(cfg.DialOptions,
		grpc.WithChainUnaryInterceptor(f.unary), grpc.WithChainStreamInterceptor(f.stream))
}

// Do runs the hook in place of the next n unary calls of the method; a negative n means all.
func (f *Faults) Do(method string, n int, hook Hook) {
	f.add(&rule{method: method, left: n, unary: hook})
}

// Stream applies the hook to the next n streams of the method that are opened; a negative n means all.
func (f *Faults) Stream(method string, n int, hook StreamHook) {
	f.add(&rule{method: method, left: n, stream: &hook})
}

// Clear drops all rules. Calls that hooks hold are not released, and streams keep the hook they were opened with.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Count returns the counts of one method, or of all together for "".
func (f *Faults) Count(method string) Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if method != "" {
		return f.counts[method]
	}
	var sum Counts
	for _, c := range f.counts {
		sum.Calls += c.Calls
		sum.Sent += c.Sent
		sum.Received += c.Received
	}
	return sum
}

func (f *Faults) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// take counts a call and returns the rule for it, nil if there is none.
func (f *Faults) take(ctx context.Context, fullMethod string, stream bool) (method string, _ *rule) {
	method = path.Base(fullMethod)
	if ctx.Err() != nil {
		return method, nil // grpc sends nothing
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(method, Counts{Calls: 1})
	for i, r := range f.rules {
		if (r.method != "" && r.method != method) || (r.stream != nil) != stream || r.left == 0 {
			continue
		}
		if r.left--; r.left == 0 {
			f.rules = append(f.rules[:i:i], f.rules[i+1:]...)
		}
		return method, r
	}
	return method, nil
}

// count adds to the counts of a method. f.mu is held.
func (f *Faults) count(method string, add Counts) {
	if f.counts == nil {
		f.counts = make(map[string]Counts)
	}
	c := f.counts[method]
	c.Calls += add.Calls
	c.Sent += add.Sent
	c.Received += add.Received
	f.counts[method] = c
}

func (f *Faults) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	name, r := f.take(ctx, method, false)
	if r == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	return r.unary(ctx, &Call{Method: name, Request: req, Reply: reply,
		fullMethod: method, cc: cc, invoke: invoke, opts: opts})
}

func (f *Faults) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	name, r := f.take(ctx, method, true)
	var hook StreamHook
	if r != nil {
		hook = *r.stream
	}
	if hook.Open != nil {
		if err := hook.Open(ctx); err != nil {
			return nil, err
		}
	}
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &faultStream{ClientStream: s, faults: f, method: name, hook: hook}, nil
}

type faultStream struct {
	grpc.ClientStream
	faults *Faults
	method string
	hook   StreamHook
}

func (s *faultStream) SendMsg(msg any) error {
	if s.hook.Send != nil {
		if err := s.hook.Send(s.Context(), msg); errors.Is(err, ErrSkip) {
			return nil
		} else if err != nil {
			return err
		}
	}
	s.count(Counts{Sent: 1})
	return s.ClientStream.SendMsg(msg)
}

func (s *faultStream) RecvMsg(msg any) error {
	for {
		if err := s.ClientStream.RecvMsg(msg); err != nil {
			return err
		}
		s.count(Counts{Received: 1})
		if s.hook.Recv == nil {
			return nil
		}
		if err := s.hook.Recv(s.Context(), msg); !errors.Is(err, ErrSkip) {
			return err
		}
	}
}

func (s *faultStream) count(add Counts) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.count(s.method, add)
}
