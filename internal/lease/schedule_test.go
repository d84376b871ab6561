package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Whatever the network, the machine and its clock do to the messages of a lease: what is left of it by its own deadline is
// never more than what the server will keep it for, and once it is over it stays over. Each schedule is made from a
// number, which a failure names; FENCEDLOCK_SCHEDULE runs that one alone.
//
// https://github.com/etcd-io/etcd/pull/5603, https://github.com/hashicorp/consul/issues/18271, https://github.com/swarthy/redis-semaphore/issues/175
func TestNoScheduleOutlivesTheServersLease(t *testing.T) {
	if text := os.Getenv("FENCEDLOCK_SCHEDULE"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		newSchedule(seed).run(t)
		return
	}
	schedules := 2000
	if testing.Short() {
		schedules = 200
	}
	var sum tally
	base := rand.Uint64() >> 16 << 16
	for i := range schedules {
		s := newSchedule(base + uint64(i))
		if s.run(t); t.Failed() {
			t.Fatalf("schedule %d failed", s.seed)
		}
		sum.add(s)
	}
	t.Logf("schedules from %d: %+v", base, sum)
	// Schedules that are all calm or all hopeless would show nothing.
	least := schedules / 50
	if min(sum.Survived, sum.Expired, sum.Revoked, sum.Slept, sum.Lost, sum.Late) < least || sum.NeverOpen > schedules/2 {
		t.Errorf("too little of something: %+v", sum)
	}
}

// tally counts what became of leases, and how many of them met what.
type tally struct{ NeverOpen, Survived, Expired, Revoked, Slept, Lost, Late, Renewals int }

func (sum *tally) add(s *schedule) {
	for _, c := range []struct {
		count *int
		so    bool
	}{
		{&sum.NeverOpen, s.end == nil && !s.opened}, {&sum.Survived, s.opened && s.end == nil}, {&sum.Expired, s.end != nil && !s.revoked},
		{&sum.Revoked, s.revoked}, {&sum.Slept, s.slept}, {&sum.Lost, s.lost.Load()}, {&sum.Late, s.late.Load()},
	} {
		if c.so {
			*c.count++
		}
	}
	sum.Renewals += s.server.count("renew")
}

// schedule is one life of a lease. All but the moments at which goroutines of the lease run follows from the seed.
type schedule struct {
	seed      uint64
	rng       *rand.Rand // for the test's own goroutine
	ttl       time.Duration
	harsh     float64       // how likely something happens to a message
	rate      float64       // the speed of the holder's clock against the server's
	out, back time.Duration // between these nothing arrives
	server    *server
	began     time.Time

	opened, revoked, slept bool
	dead                   bool  // the lease's deadline has passed in a sleep
	end                    error // why the lease was over
	lost, late             atomic.Bool
}

func newSchedule(seed uint64) *schedule {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &schedule{
		seed:  seed,
		rng:   rng,
		ttl:   time.Duration(1+rng.IntN(30)) * time.Second,
		harsh: rng.Float64() * rng.Float64(),
		rate:  []float64{1, 1, 0.9901, 1.02}[rng.IntN(4)], // the margin has room for a hundredth
	}
	if rng.IntN(8) == 0 { // so long that the tenth in the margin has come to its limit, and the hundredth counts
		s.ttl *= 10
	}
	if rng.IntN(2) == 0 {
		s.out = part(rng, 4*s.ttl)
		s.back = s.out + part(rng, s.ttl)
	}
	return s
}

func part(rng *rand.Rand, of time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(of)))
}

// fate is the same for the n-th message of a kind in each run of the schedule.
func (s *schedule) fate(kind uint64, n int) (f fate) {
	rng := rand.New(rand.NewPCG(s.seed, kind<<32+uint64(n)+1))
	f = fate{request: part(rng, s.ttl/50), reply: part(rng, s.ttl/50)}
	if now := time.Since(s.began); now >= s.out && now < s.back {
		f.dropped = true
		return f
	}
	if rng.Float64() >= s.harsh {
		return f
	}
	switch rng.IntN(8) {
	case 0:
		f.dropped = true
	case 1:
		f.lost = true
	case 2:
		f.err = unavailable
	case 3:
		f.refused = unavailable
	case 4:
		f.hangs = kind == renewals
	case 5:
		f.request = part(rng, 2*s.ttl)
	case 6:
		f.reply = part(rng, 2*s.ttl)
	case 7:
		f.request, f.reply = part(rng, s.ttl), part(rng, s.ttl)
	}
	if f.lost || f.err != nil {
		s.lost.Store(true)
	}
	if f.request+f.reply > s.ttl {
		s.late.Store(true)
	}
	return f
}

const (
	grants = iota + 1
	renewals
)

func (s *schedule) run(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.began, s.server = time.Now(), newServer()
		s.server.grant = func(n int) fate { return s.fate(grants, n) }
		s.server.renew = func(n int) fate { return s.fate(renewals, n) }
		c := newPausable()
		c.rate = s.rate
		l, err := openWithin(t, 3*s.ttl, s.server, c, s.ttl)
		if err != nil {
			return
		}
		s.opened = true
		var awake time.Time // since when the machine has not slept
		for over := 0; time.Since(s.began) < 6*s.ttl && over < 20; {
			time.Sleep(1 + part(s.rng, s.ttl/8))
			synctest.Wait()
			s.check(t, l, time.Since(awake) > tick)
			if s.end != nil {
				over++ // look on for a while
			}
			switch s.rng.IntN(100) {
			case 0, 1: // timers stand still, all clocks go on
				d := part(s.rng, s.ttl)
				// From now on the lease is over, though nobody looks: a reply may come before that.
				s.dead = s.dead || l.Remaining() < time.Duration(float64(d)*s.rate)
				c.jump(time.Duration(float64(d) * s.rate))
				s.server.age(l.ID(), d)
				awake, s.slept = time.Now(), true
			case 2:
				if s.rng.IntN(4) == 0 {
					s.server.age(l.ID(), time.Hour)
					s.revoked = true
				}
			case 3, 4:
				go l.RenewNow(context.Background()) // ends with the lease at the latest
			}
		}
	})
}

// check compares what the holder believes with what the server does.
func (s *schedule) check(t *testing.T, l *Lease, awake bool) {
	t.Helper()
	context, left, remaining, err := l.Context().Err(), s.server.left(l.ID()), l.Remaining(), l.Err()
	const rounding = time.Microsecond
	trusted := time.Duration(float64(remaining) / s.rate)
	switch now := time.Since(s.began); {
	case (err == nil) != (remaining > 0):
		t.Errorf("schedule %d, after %v: %v remain, and Err is %v", s.seed, now, remaining, err)
	case s.end != nil && err != s.end:
		t.Errorf("schedule %d, after %v: the lease was over (%v), and is not, or for another reason: %v", s.seed, now, s.end, err)
	case err == nil && s.dead:
		t.Errorf("schedule %d, after %v: the lease's deadline passed while the machine slept, and now %v remain", s.seed, now, remaining)
	case err != nil && l.Context().Err() == nil:
		t.Errorf("schedule %d, after %v: the lease is over, and its context has not ended", s.seed, now)
	case err != nil && !errors.Is(err, ErrExpired):
		t.Errorf("schedule %d, after %v: %v", s.seed, now, err)
	case s.revoked: // by somebody else, which no clock tells
	case trusted > left+rounding:
		t.Errorf("schedule %d, after %v: trusted for %v (TTL %v), and the server keeps it for %v", s.seed, now, trusted, l.TTL(), left)
	case left == 0 && context == nil && awake:
		t.Errorf("schedule %d, after %v: the server has given the lease up, and its context has not ended", s.seed, now)
	}
	s.end = err
}

// age brings a lease's end nearer.
func (s *server) age(id clientv3.LeaseID, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expiry[int64(id)] = s.expiry[int64(id)].Add(-d)
}
