package etcdtest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
)

// echo runs a server that sends every line back, and reports each line it got.
func echo(t *testing.T) (addr string, got <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				for s := bufio.NewScanner(c); s.Scan(); {
					lines <- s.Text()
					io.WriteString(c, s.Text()+"\n")
				}
				lines <- "EOF"
			})
		}
	})
	return l.Addr().String(), lines
}

type caller struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *caller {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &caller{t: t, Conn: c, r: bufio.NewReader(c)}
}

func (c *caller) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Errorf("send %q: %v", line, err)
	}
}

// read returns the next line, or the error, os.ErrDeadlineExceeded for silence.
func (c *caller) read(within time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(within))
	s, err := c.r.ReadString('\n')
	return strings.TrimSuffix(s, "\n"), err
}

func (c *caller) want(line string) {
	c.t.Helper()
	if got, err := c.read(5 * time.Second); got != line || err != nil {
		c.t.Errorf("got %q, %v; want %q", got, err, line)
	}
}

func (c *caller) wantSilence() {
	c.t.Helper()
	got, err := c.read(100 * time.Millisecond)
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		c.t.Errorf("got %q, %v; want silence", got, err)
	}
}

func (c *caller) wantReset() {
	c.t.Helper()
	if _, err := c.read(5 * time.Second); !errors.Is(err, syscall.ECONNRESET) {
		c.t.Errorf("got %v, want a reset", err)
	}
}

func wantArrival(t *testing.T, got <-chan string, line string) {
	t.Helper()
	select {
	case s := <-got:
		if s != line {
			t.Errorf("the server got %q, want %q", s, line)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("the server never got %q", line)
	}
}

func wantNoArrival(t *testing.T, got <-chan string) {
	t.Helper()
	select {
	case s := <-got:
		t.Errorf("the server got %q", s)
	case <-time.After(100 * time.Millisecond):
	}
}

func TestProxyDelaysEachDirectionAsALineNotAsAThrottle(t *testing.T) {
	addr, got := echo(t)
	p := etcdtest.StartProxy(t, addr)
	c := dial(t, p.Addr())
	const d = 150 * time.Millisecond
	for _, dir := range []etcdtest.Direction{etcdtest.Requests, etcdtest.Replies, etcdtest.Both} {
		p.Heal()
		p.Delay(dir, d)
		want := d
		if dir == etcdtest.Both {
			want = 2 * d
		}
		begin := time.Now()
		const n = 20
		for range n {
			c.send("x")
			time.Sleep(time.Millisecond) // so that they travel one by one
		}
		c.want("x")
		if first := time.Since(begin); first < want {
			t.Errorf("%b: the first came back after %v, want at least %v", dir, first, want)
		}
		for range n - 1 {
			c.want("x")
		}
		if all := time.Since(begin); all > n*d/2 {
			t.Errorf("%b: all %d came back after %v: throttled", dir, n, all)
		}
	}
	for range 60 {
		wantArrival(t, got, "x")
	}
}

func TestProxyHoldDeliversLaterWhatWasSentInSilence(t *testing.T) {
	addr, got := echo(t)
	p := etcdtest.StartProxy(t, addr)
	c, idle := dial(t, p.Addr()), dial(t, p.Addr())
	for _, x := range []*caller{c, idle} {
		x.send("before")
		x.want("before")
		wantArrival(t, got, "before")
	}
	p.Hold(etcdtest.Requests)
	c.send("late")
	c.wantSilence()
	c.Close() // the end of a connection is held too
	idle.Close()
	wantNoArrival(t, got)
	p.Heal()
	var arrived []string
	for range 3 {
		select {
		case s := <-got:
			arrived = append(arrived, s)
		case <-time.After(5 * time.Second):
			t.Fatalf("the server got only %q", arrived)
		}
	}
	slices.Sort(arrived)
	if want := []string{"EOF", "EOF", "late"}; !slices.Equal(arrived, want) {
		t.Errorf("the server got %q, want %q", arrived, want)
	}
}

func TestProxyBlackHoleIsSilentAndNeverDelivers(t *testing.T) {
	addr, got := echo(t)
	p := etcdtest.StartProxy(t, addr)
	quiet, c := dial(t, p.Addr()), dial(t, p.Addr())
	quiet.send("a")
	quiet.want("a")
	wantArrival(t, got, "a")

	p.BlackHole(etcdtest.Both)
	c.send("lost")
	later := dial(t, p.Addr())
	later.send("lost too")
	c.wantSilence()
	later.wantSilence()
	wantNoArrival(t, got)
	if open := p.Stats().Open; open != 3 {
		t.Errorf("%d connections are open, want 3", open)
	}

	p.Heal()
	c.wantReset()
	later.wantReset()
	quiet.send("b") // it lost nothing
	quiet.want("b")
	for s := ""; s != "b"; {
		if s = <-got; strings.HasPrefix(s, "lost") {
			t.Errorf("the server got %q", s)
		}
	}
}

func TestProxyBlackHoleOfRepliesLetsRequestsThrough(t *testing.T) {
	addr, got := echo(t)
	p := etcdtest.StartProxy(t, addr)
	c := dial(t, p.Addr())
	p.BlackHole(etcdtest.Replies)
	c.send("done")
	wantArrival(t, got, "done")
	c.wantSilence()
}

func TestProxyCutResetsAndRefuseKeepsOut(t *testing.T) {
	addr, _ := echo(t)
	p := etcdtest.StartProxy(t, addr)
	c := dial(t, p.Addr())
	c.send("a")
	c.want("a")
	p.Cut()
	c.wantReset()
	c = dial(t, p.Addr())
	c.send("b")
	c.want("b")
	p.Refuse()
	c.wantReset()
	// The reset may come before the dialler knows that it is connected.
	if refused, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Cleanup(func() { refused.Close() })
		(&caller{t: t, Conn: refused, r: bufio.NewReader(refused)}).wantReset()
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("dial while refusing: %v", err)
	}
	p.Heal()
	c = dial(t, p.Addr())
	c.send("c")
	c.want("c")
	if s := p.Stats(); s.Accepted != 4 || s.Open != 1 || s.Requests != 6 || s.Replies != 6 {
		t.Errorf("stats = %+v", s)
	}
}

func TestProxySilencesTheNewsThatTheServerIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := etcdtest.StartProxy(t, l.Addr().String())
	p.BlackHole(etcdtest.Replies)
	c := dial(t, p.Addr())
	c.wantSilence()
	p.Heal()
	c.wantReset()
}

func TestPutIsAppliedWhenOnlyItsReplyIsLost(t *testing.T) {
	cluster := etcdtest.Start(t, &etcdtest.Options{TLS: true})
	p := etcdtest.StartProxy(t, cluster.Member(0).Endpoint())
	direct, behind := cluster.Client(t), cluster.Client(t, etcdtest.Via(p))
	put(t, behind, "a", "1")
	p.BlackHole(etcdtest.Replies)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := behind.Put(ctx, "a", "2"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("put without reply: %v", err)
	}
	if got := get(t, direct, "a"); got != "2" {
		t.Errorf("a = %q: the put was not applied", got)
	}
}

func TestPutThatIsHeldTakesEffectWhenTheNetworkHeals(t *testing.T) {
	cluster := etcdtest.Start(t, nil)
	p := etcdtest.StartProxy(t, cluster.Member(0).Endpoint())
	direct, behind := cluster.Client(t), cluster.Client(t, etcdtest.Via(p))
	put(t, behind, "a", "1")
	p.Hold(etcdtest.Requests)
	done := make(chan error, 1)
	go func() {
		_, err := behind.Put(t.Context(), "a", "2")
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a held put returned %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if got := get(t, direct, "a"); got != "1" {
		t.Errorf("a = %q while the put is held", got)
	}
	p.Heal()
	if err := <-done; err != nil {
		t.Errorf("put after healing: %v", err)
	}
	if got := get(t, direct, "a"); got != "2" {
		t.Errorf("a = %q after healing", got)
	}
}
