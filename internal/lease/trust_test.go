package lease

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// weather is a network whose state changes at random: for a while it is good, slow, lossy, unsteady or dead.
type weather struct {
	mu    sync.Mutex
	rand  *rand.Rand // guarded by mu
	until time.Time  // guarded by mu
	state int        // guarded by mu
	ttl   time.Duration
}

func (w *weather) fate(int) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); !now.Before(w.until) {
		w.state = []int{0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 4}[w.rand.IntN(11)]
		w.until = now.Add(time.Duration(w.rand.Int64N(int64(w.ttl))))
	}
	upTo := func(d time.Duration) time.Duration { return time.Duration(w.rand.Int64N(int64(d))) }
	switch w.state {
	case 0:
		return fate{request: upTo(w.ttl / 1000), reply: upTo(w.ttl / 1000)}
	case 1:
		return fate{request: upTo(w.ttl / 2), reply: upTo(w.ttl / 2)}
	case 2:
		return fate{request: upTo(w.ttl / 50), reply: upTo(w.ttl / 50), dropped: w.rand.IntN(3) == 0, lost: w.rand.IntN(3) == 0}
	case 3:
		return []fate{{refused: unavailable}, {err: unavailable, request: upTo(w.ttl / 10)}, {reply: upTo(2 * w.ttl)}, {}}[w.rand.IntN(4)]
	}
	return fate{dropped: true}
}

// The promise that all else rests on: as long as the holder trusts its lease, so does the server, whatever the network does
// to requests and replies. The server counts from the arrival of a request.
//
// https://github.com/etcd-io/etcd/pull/5603, https://github.com/etcd-io/etcd/issues/5571
func TestHolderNeverTrustsItsLeaseLongerThanTheServer(t *testing.T) {
	const runs = 300
	expired, lived := 0, time.Duration(0)
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ttl := []time.Duration{2, 5, 15, 60}[seed%4] * time.Second
				w := &weather{rand: rand.New(rand.NewPCG(seed, 1)), ttl: ttl}
				s := newServer()
				s.grant, s.renew = w.fate, w.fate
				l, err := openWithin(t, 20*ttl, s, nil, ttl)
				if err != nil {
					return // the weather was too bad
				}
				began := time.Now()
				for step := ttl / 200; time.Since(began) < 5*ttl; time.Sleep(step) {
					trusted := l.Remaining()
					if trusted == 0 {
						expired++
						break
					}
					if kept := s.left(l.ID()); trusted >= kept {
						t.Fatalf("seed %d, after %v: the holder trusts the lease for %v, the server keeps it for %v",
							seed, time.Since(began), trusted, kept)
					}
					lived += step
				}
				if l.Context().Err() == nil != (l.Remaining() > 0) {
					t.Errorf("Remaining() = %v, the context says %v", l.Remaining(), l.Context().Err())
				}
			})
		})
	}
	t.Logf("%d runs, %d leases ended by the weather, %v of trust looked at", runs, expired, lived)
	if expired < runs/10 || expired > runs*9/10 {
		t.Errorf("%d of %d leases ended by the weather: it is too bad or too good to show anything", expired, runs)
	}
}
