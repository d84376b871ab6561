package httpguard

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// sending watches what becomes of a request. It looks at connections and not at errors: when a request that was sent is
// sent again and the second connection is refused, the error is the refusal.
type sending struct {
	asked, got atomic.Int32 // for connections
}

// trace returns a context under which a request is watched, beside what watches it already.
func (s *sending) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Add(1) },
		GotConn: func(httptrace.GotConnInfo) { s.got.Add(1) },
	})
}

// never tells that no byte of the request can have been sent: somebody asked for connections and got none.
func (s *sending) never() bool { return s.asked.Load() > 0 && s.got.Load() == 0 }

// times is how often it may have been sent, 0 if nobody tells.
func (s *sending) times() int { return int(s.got.Load()) }
