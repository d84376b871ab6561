//go:build unix

package main

import (
	"net/http"
	"slices"

	"github.com/fencedlock/fencedlock/internal/commitproxy"
	"github.com/fencedlock/fencedlock/internal/httpfault"
)

// commits strikes the next COMMIT, script of Redis, or write to the service over gRPC.
func commits(p *commitproxy.Proxy) func(late bool) (forget func() bool) {
	return func(late bool) func() bool {
		fault := commitproxy.LoseReply
		if late {
			fault = commitproxy.DelayRequest
		}
		came := p.Fail(fault)
		return func() bool {
			p.Release()
			p.Fail(0)
			return closed(came)
		}
	}
}

// uploads strikes the next request that writes an object, or to the service over HTTP.
func uploads(s *stage, p *httpfault.Proxy, upload func(*http.Request) bool) func(late bool) (forget func() bool) {
	return func(late bool) func() bool {
		var kept httpfault.Late
		fault := httpfault.LoseReply
		if late {
			fault = kept.Keep
		}
		once, came := httpfault.Once(upload, fault)
		p.Set(once)
		return func() bool {
			p.Set(nil)
			if slices.Contains(kept.Release(), 0) {
				s.Error("a late upload was not answered")
			}
			return closed(came)
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
