//go:build unix

package integration

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/internal/child"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// hoarder is a process that takes many locks and says what each costs it, with all watches open.
func hoarder(self *child.Self) error {
	n, err := strconv.Atoi(self.Args[1])
	if err != nil {
		return err
	}
	ctx := context.Background()
	return connected(self.Args[0], session.Options{TTL: time.Minute}, func(s *session.Session) error {
		take := func(i int) (*lock.Held, error) { return lock.NewMutex(s, fmt.Sprint("name", i)).TryLock(ctx) }
		if _, err := take(-1); err != nil { // what a session costs is not a lock's
			return err
		}
		before := memory()
		held := make([]*lock.Held, n)
		for i := range held {
			if held[i], err = take(i); err != nil {
				return err
			}
		}
		goroutines := runtime.NumGoroutine()
		for settled := 0; settled < 5; settled++ { // until no more watches are opened
			time.Sleep(200 * time.Millisecond)
			if now := runtime.NumGoroutine(); now != goroutines {
				goroutines, settled = now, 0
			}
		}
		self.Say("bytes %d", (memory()-before)/int64(n))
		self.Say("goroutines %d", goroutines/n)
		runtime.KeepAlive(held)
		return nil
	})
}

// memory is what the heap and the stacks of this process take.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestHeldLockCostsItsProcessLittleMemory(t *testing.T) {
	cluster := etcdtest.Start(t, nil)
	locks, limit := "2000", int64(16<<10)
	if raceDetector {
		locks, limit = "500", 24<<10
	}
	p := child.Start(t, "hoarder", cluster.Endpoints()[0], locks)
	bytes := number(t, p.Expect("bytes", 2*time.Minute))
	t.Logf("a held lock costs its process %d bytes and %s goroutines", bytes, p.Expect("goroutines", time.Minute))
	if bytes > limit {
		t.Errorf("a held lock costs %d bytes, more than %d", bytes, limit)
	}
	if err := p.Wait(time.Minute); err != nil {
		t.Error(err)
	}
	etcdtest.AssertEmpty(t, cluster.Client(t), "/fencedlock/", 0)
}
