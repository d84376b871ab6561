package etcdtest

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Call is one attempt of a unary call, as a Hook sees it.
type Call struct {
	Method  string // short name: Txn
	Request any    // *etcdserverpb.TxnRequest and so on; it may be changed before Send, at the caller's risk
	Reply   any    // *etcdserverpb.TxnResponse and so on; filled by Send, and may be changed

	fullMethod string
	cc         *grpc.ClientConn
	invoke     grpc.UnaryInvoker
	opts       []grpc.CallOption
}

// Send makes the call and waits for the reply.
func (c *Call) Send(ctx context.Context) error {
	return c.invoke(ctx, c.fullMethod, c.Request, c.Reply, c.cc, c.opts...)
}

// Detach returns a func that makes the call whenever it is wanted, also after the caller has got its answer and even
// after its context has ended. The client must still be open then.
func (c *Call) Detach(ctx context.Context) func() error {
	ctx = context.WithoutCancel(ctx)
	req := proto.Clone(c.Request.(proto.Message))
	reply := c.Reply.(proto.Message).ProtoReflect().New().Interface()
	return func() error {
		// Not with the caller's options: some point at variables that the caller reads by now.
		return c.invoke(ctx, c.fullMethod, req, reply, c.cc, grpc.WaitForReady(true))
	}
}

// Fail makes the next n calls of the method fail with err without being sent.
func (f *Faults) Fail(method string, n int, err error) {
	f.Do(method, n, func(context.Context, *Call) error { return err })
}

// LoseReplies lets the next n calls of the method be carried out, and tells their callers ErrReplyLost. A call that the
// server refuses returns that error instead.
func (f *Faults) LoseReplies(method string, n int) {
	f.Do(method, n, func(ctx context.Context, call *Call) error {
		if err := call.Send(ctx); err != nil {
			return err
		}
		return ErrReplyLost
	})
}

// Pause stops the next call of the method before it is sent, until Release or until its context ends; then it never is.
func (f *Faults) Pause(method string) *Pause {
	p := newPause()
	f.Do(method, 1, func(ctx context.Context, call *Call) error {
		if err := p.wait(ctx); err != nil {
			return err
		}
		return call.Send(ctx)
	})
	return p
}

// PauseReply lets the next call of the method be carried out and keeps the reply back until Release, or until the caller's
// context ends; then it is lost.
func (f *Faults) PauseReply(method string) *Pause {
	p := newPause()
	f.Do(method, 1, func(ctx context.Context, call *Call) error {
		if err := call.Send(ctx); err != nil {
			return err
		}
		return p.wait(ctx)
	})
	return p
}

// Late tells the caller of the method's next call ErrReplyLost at once, while the call is still on its way: it is
// carried out in Release, whatever the caller has done since. The client must still be open then.
func (f *Faults) Late(method string) *Pause {
	p := newPause()
	f.Do(method, 1, func(ctx context.Context, call *Call) error {
		p.send = call.Detach(ctx)
		close(p.reached)
		return ErrReplyLost
	})
	return p
}

// Pause is a call that a fault has stopped.
type Pause struct {
	reached chan struct{}
	release chan struct{}
	once    sync.Once
	send    func() error // set before reached is closed, by Late only
	err     error
}

func newPause() *Pause {
	return &Pause{reached: make(chan struct{}), release: make(chan struct{})}
}

// Reached is closed when a call has come to the place of the pause.
func (p *Pause) Reached() <-chan struct{} { return p.reached }

// Release lets the call go on, or lets the next one pass if none has come yet. For Late it makes the call and returns its
// outcome; if no call has come there, nothing is sent. It is idempotent.
func (p *Pause) Release() error {
	p.once.Do(func() {
		close(p.release)
		select {
		case <-p.reached:
			if p.send != nil {
				p.err = p.send()
			}
		default:
		}
	})
	return p.err
}

func (p *Pause) wait(ctx context.Context) error {
	close(p.reached)
	select {
	case <-p.release:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
