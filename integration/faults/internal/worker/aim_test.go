//go:build unix

package worker

import (
	"context"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// An order to strike a sort of calls proves nothing if the locks make none of them.
func TestEachSortOfCallIsStruck(t *testing.T) {
	cluster := etcdtest.Start(t, nil)
	for _, mode := range []Mode{Guarded, Etcd} {
		t.Run(string(mode), func(t *testing.T) {
			var faults etcdtest.Faults
			struck := make(chan string, 100)
			quit := make(chan struct{})
			a := aim{say: func(_ string, args ...any) { struck <- args[0].(string) }, quit: quit}
			a.install(&faults)
			client := cluster.Client(t, faults.Apply)
			open := func() locker {
				l, err := openLocker(t.Context(), client, Config{Mode: mode, Namespace: "/aim/", TTL: 2 * time.Second, Who: "w"})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			// How each sort is brought about. The locks of etcd's package give up at once what this one's try again.
			work := map[string]func(l locker){
				"enqueue": take, "release": take,
				"read": func(l locker) {
					behind, err := openLocker(t.Context(), client, Config{Mode: mode, Namespace: "/aim/", TTL: 2 * time.Second, Who: "v"})
					if err != nil {
						t.Error(err)
						return
					}
					defer behind.close()
					h, err := l.lock(t.Context(), "account")
					if err != nil {
						return
					}
					time.AfterFunc(50*time.Millisecond, func() { _ = h.Unlock() })
					take(behind)
				},
				"renewal":    func(locker) { time.Sleep(1500 * time.Millisecond) },
				"grant":      func(locker) {},
				"revocation": func(l locker) { _ = l.close() },
			}
			if len(work) != len(sorts) {
				t.Fatalf("%d of %d sorts are tested", len(work), len(sorts))
			}
			for sort := range sorts {
				for _, late := range []bool{false, true} {
					tag := sort + map[bool]string{false: " lost", true: " late"}[late]
					s := shot{tag: tag, sort: sort, left: 1, late: late, wait: 10 * time.Millisecond}
					a.order(s)
					l := open()
					work[sort](l)
					_ = l.close()
					a.order(shot{})
					select {
					case got := <-struck:
						if got != tag {
							t.Errorf("struck was %q, want %q", got, tag)
						}
					default:
						t.Errorf("%s: not struck", tag)
					}
				}
			}
			close(quit)
			a.pending.Wait()
		})
	}
}

func take(l locker) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if h, err := l.lock(ctx, "account"); err == nil {
		_ = h.Unlock()
	}
}

func TestAnOrderCallsAwayWhoWaitsForAnotherLock(t *testing.T) {
	var p stops
	ctx, done := p.waiting(t.Context(), "here")
	p.add(stop{place: afterRead, tag: "a", resource: "here"})
	if ctx.Err() != nil {
		t.Error("called away from where it is wanted")
	}
	p.add(stop{place: afterRead, tag: "b", resource: "there"})
	if ctx.Err() != nil {
		t.Error("called away from one order by another")
	}
	p.forget("a")
	p.add(stop{place: takingOnce, tag: "c"})
	if context.Cause(ctx) != errCalledAway {
		t.Errorf("the wait ended by %v", context.Cause(ctx))
	}
	done()
	p.add(stop{place: afterRead, tag: "d", resource: "elsewhere"}) // nobody waits
	if got := p.wanted(); got != "there" {
		t.Errorf("wanted is %q", got)
	}
	if _, ok := p.take(takingOnce, ""); !ok {
		t.Error("the order without a place is not there")
	}
	p.forgetAll()
	if got := p.wanted(); got != "" {
		t.Errorf("wanted is %q", got)
	}
}

func TestTheAgeOfANameThatIsUsedOnce(t *testing.T) {
	for name, want := range map[string]bool{"once-12": true, "once-12-abc": true, "once-x": false, "twice-12": false} {
		if age, ok := OnceAge(name); ok != want || ok && age <= 0 {
			t.Errorf("%s: %v, %t", name, age, ok)
		}
	}
}

// What was said to be struck was.
func TestWhatIsStruckIsFelt(t *testing.T) {
	cluster := etcdtest.Start(t, nil)
	var faults etcdtest.Faults
	a := aim{say: func(string, ...any) {}, quit: t.Context().Done()}
	a.install(&faults)
	client := cluster.Client(t, faults.Apply)
	open := func(m Mode) locker {
		l, err := openLocker(t.Context(), client, Config{Mode: m, Namespace: "/felt/", TTL: 2 * time.Second, Who: "w"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.close() })
		return l
	}
	theirs := open(Etcd) // which tries nothing again
	for _, late := range []bool{false, true} {
		a.order(shot{sort: "enqueue", left: 1, late: late})
		if _, err := theirs.lock(t.Context(), "account"); err == nil {
			t.Errorf("late %t: a lock whose call was struck was got", late)
		}
		a.pending.Wait()
	}
	ours := open(Guarded)
	a.order(shot{sort: "renewal", left: 1000})
	for end := time.Now().Add(10 * time.Second); ours.err() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a session of which no renewal is answered lives on")
		}
	}
	a.order(shot{})
	ours = open(Guarded)
	a.order(shot{sort: "renewal", left: 1000, late: true, wait: time.Minute})
	for end := time.Now().Add(10 * time.Second); ours.err() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a session of which all renewals are late lives on")
		}
	}
}
