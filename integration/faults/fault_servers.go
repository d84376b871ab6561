//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// soon bounds what the nemesis asks of etcd, which may be away by its own doing.
func (n *nemesis) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(n.s.Context(), 2*time.Second)
}

func (n *nemesis) killMember(i int) (strike, error) {
	m := n.site.etcd.Member(i)
	m.Stop()
	return strike{target: "member " + itoa(i), undo: func() {
		ctx, cancel := context.WithTimeout(n.s.Context(), time.Minute)
		defer cancel()
		if err := m.Restart(ctx); err != nil {
			n.s.Fatal(err)
		}
		if _, err := n.site.etcd.WaitLeader(ctx); err != nil {
			n.s.Fatal(err)
		}
	}}, nil
}

// killMember ends a member at once, and restarts it.
func killMember(n *nemesis, s step) (strike, error) { return n.killMember(int(s.pick % members)) }

// killLeader does so to the leader.
func killLeader(n *nemesis, s step) (strike, error) {
	i := n.site.etcd.Leader()
	if i < 0 {
		return strike{}, errNotNow
	}
	return n.killMember(i)
}

// isolateMember cuts a member off from the others, while its clients stay connected.
func isolateMember(n *nemesis, s step) (strike, error) {
	m := n.site.etcd.Member(int(s.pick % members))
	m.Isolate()
	return strike{target: "member " + itoa(int(s.pick%members)), undo: func() {
		m.Rejoin()
		ctx, cancel := context.WithTimeout(n.s.Context(), time.Minute)
		defer cancel()
		if _, err := n.site.etcd.WaitLeader(ctx); err != nil {
			n.s.Fatal(err)
		}
	}}, nil
}

// compact drops etcd's history.
func compact(n *nemesis, _ step) (strike, error) {
	ctx, cancel := n.soon()
	defer cancel()
	if _, err := n.site.etcd.Compact(ctx); err != nil {
		return strike{}, errNotNow
	}
	return strike{target: "etcd"}, nil
}

// defragment does so to one member, which answers nobody meanwhile.
func defragment(n *nemesis, s step) (strike, error) {
	i := int(s.pick % members)
	ctx, cancel := context.WithTimeout(n.s.Context(), asked)
	defer cancel()
	_, err := n.site.client.Defragment(ctx, n.site.etcd.Member(i).Endpoint())
	return strike{target: "member " + itoa(i), effect: func() effect {
		if err != nil {
			return perhaps // it may be away
		}
		return struck
	}}, nil
}

// noSpace raises the alarm of a full disk.
func noSpace(n *nemesis, s step) (strike, error) {
	id := uint64(n.site.etcd.Member(int(s.pick % members)).Server().MemberID())
	alarm := func(ctx context.Context, a pb.AlarmRequest_AlarmAction) error {
		_, err := pb.NewMaintenanceClient(n.site.client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{Action: a, MemberID: id, Alarm: pb.AlarmType_NOSPACE})
		return err
	}
	ctx, cancel := n.soon()
	defer cancel()
	raised := alarm(ctx, pb.AlarmRequest_ACTIVATE)
	done := func() effect {
		if raised != nil {
			return perhaps // its reply may be what was lost
		}
		return struck
	}
	return strike{target: "etcd", effect: done, undo: func() {
		ctx, cancel := context.WithTimeout(n.s.Context(), time.Minute)
		defer cancel()
		for {
			err := alarm(ctx, pb.AlarmRequest_DEACTIVATE)
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				n.s.Fatal(errors.Join(err, ctx.Err()))
			}
			time.Sleep(50 * time.Millisecond)
		}
	}}, nil
}
