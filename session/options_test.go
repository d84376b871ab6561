package session_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/session"
)

// https://github.com/etcd-io/etcd/issues/14811, https://github.com/etcd-io/etcd/issues/14857
func TestBadOptionsAreRefusedByAnErrorThatNamesTheField(t *testing.T) {
	before := leases(t)
	for name, c := range map[string]struct {
		o     session.Options
		field string
	}{
		"negative TTL":                {session.Options{TTL: -5 * time.Second}, "TTL"},
		"TTL without a unit":          {session.Options{TTL: 15}, "TTL"},
		"smallest TTL":                {session.Options{TTL: math.MinInt64}, "TTL"},
		"TTL of 9e9 s":                {session.Options{TTL: 9e9 * time.Second}, "TTL"},
		"largest TTL":                 {session.Options{TTL: math.MaxInt64}, "TTL"},
		"TTL over a year":             {session.Options{TTL: 365*24*time.Hour + 1}, "TTL"},
		"long owner":                  {session.Options{Owner: strings.Repeat("x", 513)}, "Owner"},
		"owner of no text":            {session.Options{Owner: "\xff"}, "Owner"},
		"namespace without an end":    {session.Options{Namespace: "/locks"}, "Namespace"},
		"namespace with a percent":    {session.Options{Namespace: "/a%b/"}, "Namespace"},
		"namespace with a NUL":        {session.Options{Namespace: "/a\x00/"}, "Namespace"},
		"namespace of no text":        {session.Options{Namespace: "/\xff/"}, "Namespace"},
		"namespace that is too long":  {session.Options{Namespace: strings.Repeat("x", 512) + "/"}, "Namespace"},
		"several, the first is named": {session.Options{TTL: -1, Namespace: "x"}, "TTL"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := session.New(t.Context(), direct, &c.o)
			if err == nil {
				s.Close()
				t.Fatal("New accepted it")
			}
			if !strings.HasPrefix(err.Error(), "session: Options."+c.field) {
				t.Errorf("New = %q, want an error that begins with the package and names Options.%s", err, c.field)
			}
		})
	}
	if n := leases(t); n != before {
		t.Errorf("refused options left %d leases", n-before)
	}
}

func TestClientThatCannotServeIsRefused(t *testing.T) {
	closed := cluster.Client(t)
	closed.Close()
	unconnected := clientv3.NewCtxClient(t.Context())
	defer unconnected.Close()
	for name, c := range map[string]struct {
		client *clientv3.Client
		says   string
	}{
		"nil":                  {nil, "is nil"},
		"zero":                 {&clientv3.Client{}, "no connection"},
		"without a connection": {unconnected, "no connection"},
		"closed":               {closed, "is closed"},
	} {
		s, err := session.New(t.Context(), c.client, nil)
		if err == nil {
			s.Close()
			t.Errorf("%s: New accepted it", name)
		} else if !strings.HasPrefix(err.Error(), "session: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: New = %q, want an error that says %q", name, err, c.says)
		}
	}
}

func TestNewWithAnEndedContextAsksForNothing(t *testing.T) {
	faults, client := faulty(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session.New(ctx, client, nil); err == nil || !strings.HasPrefix(err.Error(), "session: ") {
		t.Errorf("New = %v, want an error of the package", err)
	}
	if n := faults.Count("LeaseGrant").Calls; n != 0 {
		t.Errorf("%d leases were asked for", n)
	}
}

// The server raises what is too short, in silence: all deadlines go by what was granted.
//
// https://github.com/etcd-io/etcd/issues/6025, https://github.com/etcd-io/etcd/issues/11746
func TestTTLIsRoundedUpToSecondsAndTheGrantedOneCounts(t *testing.T) {
	for _, c := range []struct{ ask, granted time.Duration }{
		{0, 15 * time.Second},
		{time.Millisecond, 2 * time.Second},
		{300 * time.Millisecond, 2 * time.Second},
		{time.Second, 2 * time.Second},
		{1500 * time.Millisecond, 2 * time.Second},
		{2*time.Second + 1, 3 * time.Second},
		{9500 * time.Millisecond, 10 * time.Second},
		{time.Minute, time.Minute},
		{365 * 24 * time.Hour, 365 * 24 * time.Hour},
	} {
		s := open(t, direct, c.ask)
		if got := s.TTL(); got != c.granted {
			t.Errorf("asked for %v: TTL() = %v, want %v", c.ask, got, c.granted)
		}
		if rest := s.Remaining(); rest <= c.granted/2 || rest >= c.granted {
			t.Errorf("asked for %v: Remaining() = %v, want less than %v and not much less", c.ask, rest, c.granted)
		}
		resp, err := direct.TimeToLive(t.Context(), s.Lease())
		if err != nil || time.Duration(resp.GrantedTTL)*time.Second != s.TTL() {
			t.Errorf("asked for %v: the server granted %d s (%v), TTL() = %v", c.ask, resp.GrantedTTL, err, s.TTL())
		}
		s.Close()
	}
}

// Where the server's smallest lease is longer than what was asked for, the renewals follow.
func TestServerWithALongSmallestTTLIsFollowed(t *testing.T) {
	slow := etcdtest.Start(t, &etcdtest.Options{Tick: 200 * time.Millisecond}) // 15 ticks are 3 s
	s := open(t, slow.Client(t), time.Second)
	if s.TTL() != 3*time.Second {
		t.Errorf("TTL() = %v, want 3s", s.TTL())
	}
}

func TestNilOptionsMeanTheDefaults(t *testing.T) {
	s, err := session.New(t.Context(), direct, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.TTL() != 15*time.Second || s.Client() != direct || s.Lease() == 0 || s.Internal().Namespace() != "/fencedlock/" ||
		!strings.Contains(s.Internal().Owner(), ":") {
		t.Errorf("TTL %v, lease %x, namespace %q, owner %q", s.TTL(), s.Lease(), s.Internal().Namespace(), s.Internal().Owner())
	}
}

func TestLoggerIsToldOfRenewalsThatFail(t *testing.T) {
	faults, client := faulty(t)
	faults.Stream("LeaseKeepAlive", 2, etcdtest.StreamHook{Open: func(context.Context) error { return etcdtest.ErrReplyLost }})
	core, logs := observer.New(zap.WarnLevel)
	s, err := session.New(t.Context(), client, &session.Options{TTL: 2 * time.Second, Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eventually(t, "two warnings", func() bool { return logs.FilterMessageSnippet("tried again").Len() == 2 })
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}
