//go:build unix

package main

import (
	"net/http"
	"slices"

	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/internal/commitproxy"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// blow is what befalls one write, the first that comes.
type blow string

const (
	replyLost  blow = "reply lost" // it is carried out, and its writer is told that the connection broke
	comesLate  blow = "late"       // its writer is told so, and then it is carried out
	comesTwice blow = "repeated"   // it comes twice, and the second answer is handed on, as by a proxy that tries again
)

// blows are those that somebody can deal, by what they are. forget ends one, carries out what is late, and tells whether a
// write has come at all.
type blows map[blow]func() (forget func() (came bool))

// commits strikes the next COMMIT, script of Redis, or write over gRPC, which comes through one of the proxies. A writer that
// tries again through another is struck again.
func commits(proxies ...*commitproxy.Proxy) blows {
	one := func(fault commitproxy.CommitFault) func() func() bool {
		return func() func() bool {
			var all []<-chan struct{}
			for _, p := range proxies {
				all = append(all, p.Fail(fault))
			}
			return func() bool {
				for _, p := range proxies {
					p.Release()
					p.Fail(0)
				}
				return slices.ContainsFunc(all, closed)
			}
		}
	}
	return blows{replyLost: one(commitproxy.LoseReply), comesLate: one(commitproxy.DelayRequest)}
}

// uploads strikes the next request that writes an object, whose guard knows its own writes when they come twice.
func uploads(s *stage, p *httpfault.Proxy, upload func(*http.Request) bool) blows {
	one := func(fault httpfault.Fault, kept *httpfault.Late) func() bool {
		once, came := httpfault.Once(upload, fault)
		p.Set(once)
		return func() bool {
			p.Set(nil)
			if slices.Contains(kept.Release(), 0) {
				s.Error("a late write was not answered")
			}
			return closed(came)
		}
	}
	return blows{
		replyLost: func() func() bool { return one(httpfault.LoseReply, new(httpfault.Late)) },
		comesLate: func() func() bool {
			kept := new(httpfault.Late)
			return one(kept.Keep, kept)
		},
		comesTwice: func() func() bool { return one(httpfault.Repeat, new(httpfault.Late)) },
	}
}

// posts strikes the next request to the service over HTTP that writes. What is in front of it must not repeat writes.
func posts(s *stage, p *httpfault.Proxy) blows {
	b := uploads(s, p, store.WriteOverHTTP)
	delete(b, comesTwice)
	return b
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
