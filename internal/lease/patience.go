package lease

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// patience is how long one attempt may wait for its reply. A request on a dead
// connection would hang for as long as TCP likes while another endpoint could
// answer, so it starts at a sixth of the lease, at most 2.5 s. Where the network is slow it
// grows, to half a lease at most: else no attempt would ever succeed.
type patience struct {
	mu          sync.Mutex
	least, most time.Duration // guarded by mu
	now         time.Duration // guarded by mu
}

func newPatience(ttl time.Duration) *patience {
	return &patience{least: firstLimit(ttl), most: ttl / 2, now: firstLimit(ttl)}
}

// firstLimit is what an attempt may take at first: long leases are no reason to
// wait for long.
func firstLimit(ttl time.Duration) time.Duration { return min(ttl/6, 2500*time.Millisecond) }

// fit is for a lease that turned out to be of another length; what was learned
// from the replies so far stays.
func (p *patience) fit(ttl time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.least, p.most = firstLimit(ttl), ttl/2
	p.now = min(max(p.now, p.least), p.most)
}

func (p *patience) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// answered learns from a reply that took so long.
func (p *patience) answered(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = min(max(2*took, p.least), p.most)
}

// failed learns from an attempt without a reply, if it used up its limit.
func (p *patience) failed(limit, took time.Duration) {
	if took < limit {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = min(max(2*limit, p.now), p.most)
}

// backoff returns the pause before attempt n is repeated, n from 0: it doubles
// up to a twelfth of the lease, and half of it is chance, so that many clients
// do not come back at once.
func backoff(ttl time.Duration, n int) time.Duration {
	d := min(10*time.Millisecond<<min(n, 16), ttl/12)
	return d/2 + rand.N(d/2+1)
}

// pause waits for backoff(ttl, n) or the end of ctx, whose error it returns.
func pause(ctx context.Context, ttl time.Duration, n int) error {
	timer := time.NewTimer(backoff(ttl, n))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
