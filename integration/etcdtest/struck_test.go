package etcdtest_test

import (
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// A test that brings about a fault must be able to tell whether that has met anything.
func TestAProxyCountsWhatItsFaultsHaveStruck(t *testing.T) {
	for name, fault := range map[string]func(*etcdtest.Proxy){
		"Delay":     func(p *etcdtest.Proxy) { p.Delay(etcdtest.Requests, time.Millisecond) },
		"Hold":      func(p *etcdtest.Proxy) { p.Hold(etcdtest.Requests) },
		"BlackHole": func(p *etcdtest.Proxy) { p.BlackHole(etcdtest.Both) },
		"Cut":       (*etcdtest.Proxy).Cut,
	} {
		t.Run(name, func(t *testing.T) {
			addr, got := echo(t)
			p := etcdtest.StartProxy(t, addr)
			c := dial(t, p.Addr())
			c.send("before")
			<-got
			c.want("before")
			if n := p.Stats().Struck; n != 0 {
				t.Errorf("%d are struck without a fault", n)
			}
			fault(p)
			c.Write([]byte("under it\n")) // fails when the connection is cut
			for end := time.Now().Add(10 * time.Second); p.Stats().Struck != 1; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d are struck, want 1", p.Stats().Struck)
				}
			}
			p.Heal()
		})
	}
}
