//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/fencedlock/fencedlock/integration/etcdtest"
	"github.com/fencedlock/fencedlock/lock"
	"github.com/fencedlock/fencedlock/session"
)

// Under the NOSPACE alarm puts fail, while renewals and deletes work: what is held stays held and can be given back.
func TestFullEtcdRefusesLocksAtOnceAndLetsThemGo(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, &etcdtest.Options{Configure: func(c *embed.Config) { c.QuotaBackendBytes = 2 << 20 }})
	client := cluster.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := session.New(ctx, client, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h, err := lock.NewMutex(s, "held").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 200<<10)
	for i := 0; err == nil; i++ {
		_, err = client.Put(ctx, fmt.Sprint("/big/", i), big)
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := lock.NewMutex(s, "job").Lock(ctx); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("Lock: %v", err)
	}
	if _, err := lock.NewMutex(s, "job").TryLock(ctx); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("TryLock: %v", err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the refusals took %v", took)
	}
	s.Internal().RenewNow(ctx)
	if err := h.Err(); err != nil {
		t.Errorf("the hold: %v", err)
	}
	if err := h.Unlock(); err != nil {
		t.Errorf("Unlock: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	etcdtest.AssertEmpty(t, client, "/fencedlock/", 0)
}
