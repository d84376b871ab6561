//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/integration/faults/internal/worker"
	"github.com/fencedlock/fencedlock/internal/child"
)

// workerRole is the name of the processes' role.
const workerRole = "worker"

// roles are what this program does when it is started again by itself.
var roles = map[string]child.Role{workerRole: worker.Run}

// mate is one worker: a process, which may be killed and replaced, and its ways to etcd.
type mate struct {
	s       *stage
	cfg     worker.Config // of the first process
	dir     string
	proxies []*etcdtest.Proxy // one for each member

	mu    sync.Mutex
	p     *child.Process // guarded by mu
	life  int            // how many processes there were before this one; guarded by mu
	dead  bool           // killed, and not replaced yet; guarded by mu
	index int
}

// hire starts a worker.
func hire(s *stage, x *site, cfg worker.Config, dir string, index int) *mate {
	m := &mate{s: s, cfg: cfg, dir: dir, index: index}
	for _, e := range x.etcd.Endpoints() {
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
	cfg.Who = fmt.Sprintf("w%d.%d", m.index, m.life)
	cfg.Seed = m.cfg.Seed + uint64(1000*m.index+m.life)
	cfg.History = filepath.Join(m.dir, cfg.Who+".jsonl")
	text, err := json.Marshal(cfg)
	if err != nil {
		m.s.Fatal(err)
	}
	p := child.Start(m.s, workerRole, string(text))
	m.mu.Lock()
	m.p = p
	m.mu.Unlock()
	p.Expect("up", 30*time.Second)
}

// who is the process's name in the history.
func (m *mate) who() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("w%d.%d", m.index, m.life)
}

func (m *mate) process() *child.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.p
}

// kill ends the process by SIGKILL.
func (m *mate) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	m.p.Kill()
}

// stop stops the process, if there is one at the moment, and returns what lets it go on: it alone, and not one that has
// taken its place.
func (m *mate) stop() (resume func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, false
	}
	m.p.Stop()
	return m.resume(m.p), true
}

func (m *mate) resume(p *child.Process) func() {
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.p == p && !m.dead {
			p.Continue()
		}
	}
}

// replace starts another process in place of one that was killed.
func (m *mate) replace() {
	m.mu.Lock()
	m.life++
	m.mu.Unlock()
	m.start()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = false
}

// order sends one line to the process, if there is one at the moment.
func (m *mate) order(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dead {
		m.p.Send(fmt.Sprintf(format, args...))
	}
}

// said waits until the process has said the line, and tells whether it has within the time.
func (m *mate) said(line string, within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, l := range m.process().Lines() {
			if strings.TrimSpace(l) == line {
				return true
			}
		}
	}
	return false
}
