//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
	"github.com/fencedlock/fencedlock/internal/child"
)

// workerRole is the name of the processes' role.
const workerRole = "worker"

// roles are what this program does when it is started again by itself.
var roles = map[string]child.Role{workerRole: worker.Run, serviceRole: store.RunService}

// mate is one worker: a process, which may be killed and replaced, and its ways to etcd.
type mate struct {
	s       *stage
	cfg     worker.Config // of the first process
	dir     string
	index   int
	proxies []*etcdtest.Proxy // one for each member
	loose   sync.WaitGroup    // see dismiss

	mu   sync.Mutex
	life *life // the process of now; guarded by mu
	ends int   // how many there were before
}

// hire starts a worker.
func hire(s *stage, x *site, cfg worker.Config, dir string, index int) *mate {
	m := &mate{s: s, cfg: cfg, dir: dir, index: index}
	for _, e := range x.places.Etcd {
		p := etcdtest.StartProxy(s, e)
		m.proxies = append(m.proxies, p)
		m.cfg.Endpoints = append(m.cfg.Endpoints, p.Endpoint())
	}
	m.cfg.Places.Etcd = m.cfg.Endpoints
	m.start()
	return m
}

func (m *mate) start() {
	cfg := m.cfg
	cfg.Who = fmt.Sprintf("w%d.%d", m.index, m.ends)
	cfg.Seed = m.cfg.Seed + uint64(1000*m.index+m.ends)
	cfg.History = filepath.Join(m.dir, cfg.Who+".jsonl")
	text, err := json.Marshal(cfg)
	if err != nil {
		m.s.Fatal(err)
	}
	l := &life{s: m.s, who: cfg.Who, p: child.Start(m.s, workerRole, string(text))}
	l.p.Expect("up", 30*time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life = l
}

// now is the process of now.
func (m *mate) now() *life {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.life
}

// replace starts another process in place of one that was killed.
func (m *mate) replace() {
	m.ends++
	m.start()
}

// heal ends what was done to its ways to etcd.
func (m *mate) heal() {
	for _, p := range m.proxies {
		p.Heal()
	}
}

// struck counts what faults have done to its traffic with etcd so far.
func (m *mate) struck() (n int) {
	for _, p := range m.proxies {
		n += p.Stats().Struck
	}
	return n
}

func stopping(tag string) string { return "stopping " + tag }

// come makes the process take a lock and come to a place under it, and tells whether it has within the time; else it will
// not. At "lingering" it goes on, at all other places it has stopped itself, until resume.
func (m *mate) come(place, tag, name string, within time.Duration) (*life, bool) {
	l := m.now()
	if !l.order(listens, "stop %s %s %s", place, tag, name) || !l.said(stopping(tag), within) {
		m.dismiss(l, place, tag)
		return nil, false
	}
	if place != lingering {
		l.stopped()
		time.Sleep(10 * time.Millisecond) // until it stands still
	}
	return l, true
}

// The places of a worker's hold that faults make use of.
const (
	afterRead = "after-read"
	inside    = "inside"
	lingering = "lingering"
)

// dismiss takes back an order, and looks after a process that has obeyed it in this moment.
func (m *mate) dismiss(l *life, place, tag string) {
	gone, ok := l.send("go %s", tag)
	if !ok || place == lingering {
		return
	}
	m.loose.Go(func() {
		for end := time.Now().Add(obeys); time.Now().Before(end) && !l.killed(); {
			took := l.said(gone, 20*time.Millisecond)
			if l.said(stopping(tag), 20*time.Millisecond) {
				l.stopped()
				time.Sleep(20 * time.Millisecond) // until it stands still
				l.resume()
				return
			}
			if took {
				return
			}
		}
	})
}
