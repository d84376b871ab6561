//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/fencedlock/fencedlock/integration/faults/internal/store"
	"github.com/fencedlock/fencedlock/internal/child"
)

// serviceRole is the name of the service's role.
const serviceRole = "service"

// service is the process that others reach over HTTP and gRPC.
type service struct {
	s   *stage
	cfg store.ServiceConfig // with the ports that it got at first, which it keeps

	mu sync.Mutex
	p  *child.Process // guarded by mu
}

// startService starts it with the data of those places. It is killed when all is over.
func startService(s *stage, p store.Places, guarded bool) *service {
	v := &service{s: s, cfg: store.ServiceConfig{Places: p, Guarded: guarded}}
	web, rpc, _ := strings.Cut(v.start(), " ")
	v.cfg.Places.HTTP, v.cfg.Places.GRPC = web, rpc
	return v
}

func (v *service) start() (addresses string) {
	text, err := json.Marshal(v.cfg)
	if err != nil {
		v.s.Fatal(err)
	}
	v.p = child.Start(v.s, serviceRole, string(text))
	return v.p.Expect("serves ", 30*time.Second)
}

// restart kills it with whatever is under way, and starts it again on the same ports and data.
func (v *service) restart() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.p.Kill()
	v.start()
	return nil
}
