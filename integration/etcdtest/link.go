package etcdtest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// lineState is what a Proxy does to one direction.
type lineState struct {
	mode  lineMode
	delay time.Duration
}

type lineMode int

const (
	passing lineMode = iota
	holding
	losing
)

// link is one client connection and its counterpart at the server.
type link struct {
	p      *Proxy
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
	client *net.TCPConn
	lossy  bool // bytes were lost: there is no way on; guarded by p.mu

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled; guarded by mu
}

func newLink(p *Proxy, client *net.TCPConn) *link {
	k := &link{p: p, client: client}
	k.ctx, k.cancel = context.WithCancel(p.ctx)
	return k
}

// reset ends both connections with RST, so that no end can take it for an orderly close.
func (k *link) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cancel()
	for _, c := range []*net.TCPConn{k.client, k.server} {
		if c != nil {
			c.SetLinger(0)
			c.Close()
		}
	}
}

func (k *link) run() {
	defer func() {
		k.p.mu.Lock()
		delete(k.p.links, k)
		k.p.mu.Unlock()
	}()
	defer k.reset()
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(k.ctx, "tcp", k.p.target)
	if err != nil {
		k.awaitPassing(1) // the refusal is a reply, and obeys the faults
		return
	}
	server := conn.(*net.TCPConn)
	k.mu.Lock()
	k.server = server
	dead := k.ctx.Err() != nil
	k.mu.Unlock()
	if dead {
		return
	}
	requests := &line{link: k, dir: 0, src: k.client, dst: server, wake: make(chan struct{}, 1)}
	replies := &line{link: k, dir: 1, src: server, dst: k.client, wake: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	wg.Go(requests.read)
	wg.Go(replies.read)
	wg.Go(requests.write)
	wg.Go(replies.write)
	wg.Wait()
}

// awaitPassing blocks while that direction is silenced.
func (k *link) awaitPassing(dir int) {
	for {
		state, changed := k.p.look(dir)
		if state.mode == passing {
			return
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
			return
		}
	}
}

// line carries bytes in one direction: a queue with a time of arrival for each piece.
type line struct {
	*link
	dir      int // index into Proxy.state
	src, dst *net.TCPConn
	wake     chan struct{} // the queue has grown

	qmu   sync.Mutex
	queue []parcel // guarded by qmu
}

// parcel is what was read at one time: bytes, or the end of the connection. The end travels like bytes do.
type parcel struct {
	due    time.Time
	data   []byte
	end    error // io.EOF: orderly; else the connection broke
	struck bool  // counted
}

func (l *line) read() {
	for {
		buf := make([]byte, 16<<10)
		n, err := l.src.Read(buf)
		state, _ := l.p.look(l.dir)
		due := time.Now().Add(state.delay)
		if state.delay > 0 {
			l.p.struck()
		}
		l.qmu.Lock()
		if n > 0 {
			l.queue = append(l.queue, parcel{due: due, data: buf[:n], struck: state.delay > 0})
		}
		if err != nil {
			l.queue = append(l.queue, parcel{due: due, end: err})
		}
		l.qmu.Unlock()
		select {
		case l.wake <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (l *line) write() {
	for {
		next, ok := l.await()
		if !ok {
			return
		}
		switch {
		case next.data != nil:
			n, err := l.dst.Write(next.data)
			l.p.delivered(l.dir, n)
			if err != nil {
				l.awaitPassing(1 - l.dir) // dst has gone, and that news travels the other way
				l.reset()
				return
			}
		case errors.Is(next.end, io.EOF):
			l.dst.CloseWrite()
			return
		default:
			l.reset()
			return
		}
	}
}

// await returns the next parcel to deliver, false when the link has ended.
func (l *line) await() (parcel, bool) {
	for {
		l.qmu.Lock()
		var head *parcel
		var timer <-chan time.Time
		if len(l.queue) > 0 {
			head = &l.queue[0]
			if early := time.Until(head.due); early > 0 {
				timer = time.After(early)
			}
		}
		// Looking at the state after the queue makes faults exact: what is sent after Hold has returned is held.
		due := head != nil && timer == nil
		mode, changed := l.p.judge(l, due)
		if due && mode != passing && !head.struck {
			head.struck = true
			l.p.struck()
		}
		if due && mode != holding {
			next := *head
			l.queue = l.queue[1:]
			l.qmu.Unlock()
			if mode == losing {
				continue
			}
			return next, true
		}
		l.qmu.Unlock()
		select {
		case <-l.ctx.Done():
			return parcel{}, false
		case <-changed:
		case <-l.wake:
		case <-timer:
		}
	}
}
