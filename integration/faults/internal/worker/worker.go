//go:build unix

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/internal/clock"
)

const (
	// patience bounds a call of Lock, and one request to a storage.
	patience = 10 * time.Second
	// longestRest is how long a worker rests between two holds at most.
	longestRest = 10 * time.Millisecond
	// One write of so many gives up shortly, so that requests which are held up come when nobody waits for them.
	impatient = 4
	shortly   = 700 * time.Millisecond
	// longestHold is how long a hold lasts that is told to last long: longer than a lease.
	longestHold = 4 * time.Second
	// mostWrites is how many writes it makes in a hold at most.
	mostWrites = 3
)

// worker is the state of one process.
type worker struct {
	cfg    Config
	self   *child.Self
	rec    *history.Recorder
	client *clientv3.Client
	faults etcdtest.Faults // of the client
	clock  steppedClock
	rnd    *rand.Rand
	stops  stops
	aim    aim

	session locker                 // nil: none at the moment
	stores  map[string]store.Store // by resource; those that are open
	holds   int                    // so far
	writes  int

	lastOnce string // the last lock of once

	calm   atomic.Bool
	finish atomic.Bool
	quit   chan struct{} // closed with finish
}

// Run is the role of the process. It works until it is told to finish.
func Run(self *child.Self) (err error) {
	if len(self.Args) != 1 {
		return errors.New("worker: want one argument, the Config as JSON")
	}
	w := &worker{self: self, stores: make(map[string]store.Store), quit: make(chan struct{})}
	if err := json.Unmarshal([]byte(self.Args[0]), &w.cfg); err != nil {
		return fmt.Errorf("worker: Config: %w", err)
	}
	before := goleak.IgnoreCurrent()
	if w.rec, err = history.NewRecorder(w.cfg.History, w.cfg.Who); err != nil {
		return err
	}
	w.rnd = rand.New(rand.NewPCG(w.cfg.Seed, uint64(len(w.cfg.Who))))
	w.stops.self = self
	w.aim.say, w.aim.quit = self.Say, w.quit
	w.aim.install(&w.faults)
	if w.client, err = store.EtcdClient(w.cfg.Endpoints, w.faults.Apply); err != nil {
		return err
	}
	obeyed := make(chan struct{})
	go func() {
		defer close(obeyed)
		w.obey()
	}()
	self.Say("up")
	for !w.finish.Load() {
		name := w.cfg.Resources[w.rnd.IntN(len(w.cfg.Resources))]
		if wanted := w.stops.wanted(); wanted != "" {
			name = wanted
		}
		w.turn(name)
		if w.calm.Load() {
			w.calmTurns()
		} else {
			w.once()
		}
		time.Sleep(rand.N(longestRest))
	}
	<-obeyed
	w.aim.pending.Wait()
	w.end(before)
	return w.rec.Close()
}

// calmTurns is what must work when all faults are over: every lock, and a write to every resource.
func (w *worker) calmTurns() {
	for _, i := range w.rnd.Perm(len(w.cfg.Resources)) {
		w.turn(w.cfg.Resources[i])
	}
	w.self.Say("calm")
	for !w.finish.Load() {
		time.Sleep(5 * time.Millisecond)
	}
}

// end closes everything and says what is left.
func (w *worker) end(before goleak.Option) {
	if w.session != nil {
		if err := w.session.close(); err != nil {
			w.rec.Add(history.Event{Kind: history.Over, Name: "session", Err: err.Error()})
		}
	}
	for _, s := range w.stores {
		_ = s.Close() // its connections may be broken
	}
	_ = w.client.Close()
	if err := goleak.Find(before); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n\n")
		w.rec.Add(history.Event{Kind: history.Over, Name: "goroutine", Err: text})
	}
	w.self.Say("done")
}

// opened returns the session, a new one if the last is over or another is ordered.
func (w *worker) opened() (locker, error) {
	_, another := w.stops.take(reopening, "")
	if w.session != nil {
		err := w.session.err()
		if err == nil && !another {
			return w.session, nil
		}
		if err != nil {
			w.rec.Add(history.Event{Kind: history.Lost, Lease: int64(w.session.lease()), Err: err.Error()})
		}
		// That of etcd's package would wait for the lease to be revoked, and hears of nothing else.
		_ = w.session.close()
		w.session = nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := openLocker(clock.With(ctx, w.clock.now), w.client, w.cfg)
	if err != nil {
		return nil, err
	}
	w.session = attentive{s, &w.stops}
	w.rec.Add(history.Event{Kind: history.Opened, Lease: int64(s.lease())})
	return s, nil
}

// storeOf returns the resource's storage, opened at its first use.
func (w *worker) storeOf(ctx context.Context, resource string) (store.Store, error) {
	if s, ok := w.stores[resource]; ok {
		return s, nil
	}
	k, err := store.Of(resource)
	if err != nil {
		return nil, err
	}
	s, err := k.Open(ctx, w.cfg.Places, w.cfg.Mode == Guarded)
	if err != nil {
		return nil, err
	}
	w.stores[resource] = telling{s, w.self.Say}
	return w.stores[resource], nil
}
