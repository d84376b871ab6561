package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// counts are exact while nobody works.
type counts struct {
	goroutines int // of this process
	keys       int
	leases     int
	watches    int
}

// A sample is how things are while nobody works.
type sample struct {
	at time.Duration // since the beginning
	counts
	client memory
	etcd   memory
	db     int64 // bytes of etcd's database that are in use, after compaction
}

// take waits until the workers' traces have gone and takes a sample. Nobody works meanwhile.
func (s *site) take(ctx context.Context, least counts) (p sample, err error) {
	if p.counts, err = s.settle(ctx, least); err != nil {
		return p, err
	}
	p.client = measure()
	resp, err := s.admin.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return p, err
	}
	_, err = s.admin.Compact(ctx, resp.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil && s.compacted != resp.Header.Revision {
		return p, err
	}
	s.compacted = resp.Header.Revision
	status, err := s.admin.Status(ctx, s.server.Etcd)
	if err != nil {
		return p, err
	}
	p.db = status.DbSizeInUse
	p.etcd, err = s.server.memory(ctx)
	return p, err
}

// settle waits until what is in etcd has not changed for a while. A connection that was lost is made again after a pause, so it
// must also be what the sessions hold, at least. If it goes on changing, what it is in the end is as good: it would be a leak.
// Of goroutines it tells the fewest, since sessions go on renewing their leases, and locks reading their keys.
func (s *site) settle(ctx context.Context, least counts) (now counts, err error) {
	const same, atMost = 5, 15 * time.Second
	tick := time.NewTicker(50 * time.Millisecond) // as long as a hold is old when it is watched
	defer tick.Stop()
	begin := time.Now()
	for seen := 0; seen < same; {
		before := now
		if now, err = s.count(ctx); err != nil {
			return now, err
		}
		complete := now.keys >= least.keys && now.leases >= least.leases && now.watches >= least.watches
		changed := now.keys != before.keys || now.leases != before.leases || now.watches != before.watches
		if changed || !complete {
			seen = 0
		} else if seen++; seen > 1 { // streams that were lost may be missing before
			now.goroutines = min(now.goroutines, before.goroutines)
		}
		if time.Since(begin) > atMost {
			if !complete {
				return now, fmt.Errorf("after %v etcd has %+v, less than the sessions hold: %+v", atMost, now, least)
			}
			return now, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
	return now, nil
}

func (s *site) count(ctx context.Context) (c counts, err error) {
	c.goroutines = runtime.NumGoroutine()
	keys, err := s.admin.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return c, err
	}
	leases, err := s.admin.Leases(ctx)
	if err != nil {
		return c, err
	}
	c.keys, c.leases = int(keys.Count), len(leases.Leases)
	err = s.server.ask(ctx, "/metrics", func(r io.Reader) error {
		c.watches, err = readGauge(r, "etcd_debugging_mvcc_watcher_total")
		return err
	})
	return c, err
}

// readGauge finds the value of a gauge without labels in what etcd tells at /metrics.
func readGauge(r io.Reader, name string) (int, error) {
	found := -1
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, err
			}
			found = int(value)
		}
	}
	if found < 0 {
		return 0, errors.Join(fmt.Errorf("etcd's metrics have no %s", name), lines.Err())
	}
	return found, lines.Err()
}
