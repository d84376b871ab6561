package lease

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestPatienceGrowsBySilenceAndFollowsReplies(t *testing.T) {
	const ms = time.Millisecond
	p := newPatience(6 * time.Second)
	for i, step := range []struct {
		what string
		do   func()
		want time.Duration
	}{
		{"at first", func() {}, 1000 * ms},
		{"an attempt without a reply", func() { p.failed(p.limit(), p.limit()) }, 2000 * ms},
		{"another", func() { p.failed(p.limit(), p.limit()) }, 3000 * ms},
		{"another, at the most", func() { p.failed(p.limit(), p.limit()) }, 3000 * ms},
		{"a quick refusal", func() { p.failed(p.limit(), 10*ms) }, 3000 * ms},
		{"a reply after 0.9 s", func() { p.answered(900 * ms) }, 1800 * ms},
		{"a quick reply", func() { p.answered(ms) }, 1000 * ms},
		{"a quick refusal again", func() { p.failed(p.limit(), 10*ms) }, 1000 * ms},
		{"a reply after 2 s", func() { p.answered(2000 * ms) }, 3000 * ms},
		{"silence of an attempt with an older limit", func() { p.failed(1000*ms, 1000*ms) }, 3000 * ms},
		{"a lease twice as long", func() { p.fit(12 * time.Second) }, 3000 * ms},
		{"silence", func() { p.failed(p.limit(), p.limit()) }, 6000 * ms},
		{"a lease of 3 s", func() { p.fit(3 * time.Second) }, 1500 * ms},
		{"a lease of 30 s, of which a sixth is long", func() { p.fit(30 * time.Second) }, 2500 * ms},
	} {
		step.do()
		if got := p.limit(); got != step.want {
			t.Fatalf("step %d, %s: the limit is %v, want %v", i, step.what, got, step.want)
		}
	}
}

func TestPausesDoubleUpToATwelfthOfTheLeaseAndAreHalfChance(t *testing.T) {
	const ttl = 12 * time.Second
	for n, most := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000} {
		most *= time.Millisecond
		shortest, longest := most, time.Duration(0)
		for range 1000 {
			d := backoff(ttl, n)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		if shortest < most/2 || longest > most {
			t.Errorf("pause %d took %v to %v, want within %v and %v", n, shortest, longest, most/2, most)
		}
		if longest-shortest < most/4 {
			t.Errorf("pause %d took %v to %v: too little chance, clients will come together", n, shortest, longest)
		}
	}
	for _, n := range []int{16, 63, 64, 1 << 30} {
		if d := backoff(ttl, n); d < ttl/24 || d > ttl/12 {
			t.Errorf("pause %d took %v, want %v to %v", n, d, ttl/24, ttl/12)
		}
	}
}

func TestPauseEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := opened(t, newServer(), nil, time.Hour)
		time.AfterFunc(time.Second, func() { go l.Close() })
		began := time.Now()
		if err := l.Pause(t.Context(), 20); err != ErrClosed || time.Since(began) != time.Second {
			t.Errorf("Pause = %v after %v, want ErrClosed after 1s", err, time.Since(began))
		}
	})
}

// A network that takes longer than the first attempt waits is slow, not dead.
//
// https://github.com/mike-marcacci/node-redlock/pull/369
func TestSlowNetworkKeepsItsLease(t *testing.T) {
	for _, c := range []struct{ ttl, delay time.Duration }{
		{3 * time.Second, 400 * time.Millisecond},
		{3 * time.Second, 1200 * time.Millisecond},
		{15 * time.Second, 6 * time.Second},
	} {
		t.Run(fmt.Sprint(c.ttl, " ", c.delay), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				slow := func(int) fate { return fate{reply: c.delay} }
				s.grant, s.renew, s.revoke = slow, slow, slow
				l, err := openWithin(t, time.Hour, s, nil, c.ttl)
				if err != nil {
					t.Fatal(err)
				}
				if got := l.patience.limit(); got < c.delay {
					t.Errorf("the next request may take %v, and replies take %v", got, c.delay)
				}
				time.Sleep(time.Hour)
				if l.Err() != nil {
					t.Errorf("replies that took %v ended a lease of %v: %v", c.delay, c.ttl, l.Err())
				}
				if n := s.count("open"); n > 10 {
					t.Errorf("%d streams were opened in an hour, and each would have been answered", n)
				}
			})
		})
	}
}
