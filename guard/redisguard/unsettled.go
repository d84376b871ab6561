package redisguard

import (
	"slices"
	"sync"

	"github.com/fencedlock/fencedlock/guard"
)

// unsettled remembers the operations that may still arrive: those of which the last word was a lost reply. The next
// operation with the same token tells Redis never to carry them out any more, so that they cannot come after it. A higher
// token needs no telling, since it shuts them out.
type unsettled struct {
	mu sync.Mutex
	m  map[string]*lostOps // by resource; guarded by mu
}

type lostOps struct {
	tok    guard.Token
	nonces []string
}

func (u *unsettled) add(resource string, tok guard.Token, nonce string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.m[resource]
	switch {
	case l != nil && tok < l.tok:
		return // shut out when l's are
	case l == nil || tok > l.tok:
		l = &lostOps{tok: tok}
		if u.m == nil {
			u.m = make(map[string]*lostOps)
		}
		u.m[resource] = l
	}
	l.nonces = append(l.nonces, nonce)
}

// of returns the nonces that an operation with tok is to close.
func (u *unsettled) of(resource string, tok guard.Token) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if l := u.m[resource]; l != nil && l.tok == tok {
		return slices.Clone(l.nonces)
	}
	return nil
}

// settled forgets nonces that Redis has closed, and all of lower tokens: the mark is tok or higher.
func (u *unsettled) settled(resource string, tok guard.Token, nonces []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.m[resource]
	if l == nil || l.tok > tok {
		return
	}
	if l.tok == tok {
		l.nonces = slices.DeleteFunc(l.nonces, func(n string) bool { return slices.Contains(nonces, n) })
	}
	if l.tok < tok || len(l.nonces) == 0 {
		delete(u.m, resource)
	}
}
