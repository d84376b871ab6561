package grpcguard_test

import (
	"context"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
	"github.com/fencedlock/fencedlock/guard/guardtest"
)

// remote is the suite's view of a store behind gRPC.
type remote struct {
	conn atomic.Pointer[grpc.ClientConn]
}

func (c *remote) Seal(ctx context.Context, resource string, tok guard.Token) error {
	_, err := call(guard.NewContext(ctx, resource, tok), c.conn.Load(), methodSeal, "")
	return err
}

func (c *remote) Highest(ctx context.Context, resource string) (guard.Token, error) {
	if err := guard.CheckResource(resource); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil { // which a status does not wrap
		return 0, err
	}
	s, err := call(ctx, c.conn.Load(), methodHighest, resource)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return guard.Token(n), err
}

func TestAGuardBehindGRPCPassesTheSuite(t *testing.T) {
	guardtest.Run(t, func(t *testing.T) guardtest.Store {
		file := filepath.Join(t.TempDir(), "test.db")
		c := &remote{}
		start := func() (stop func()) {
			s := openStore(t, file)
			server := serve(t, &grpcguard.Options{Optional: readers}, s.handle)
			c.conn.Store(dial(t, server.addr, guarded(nil)...))
			return func() { server.Stop(); _ = s.db.Close() }
		}
		stop := start()
		write := func(fault string) func(context.Context, string, guard.Token, string) error {
			return func(ctx context.Context, resource string, tok guard.Token, value string) error {
				if fault != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, faultKey, fault)
				}
				_, err := call(guard.NewContext(ctx, resource, tok), c.conn.Load(), methodPut, value)
				return err
			}
		}
		return guardtest.Store{
			Sealer: c,
			Write:  write(""),
			Read: func(ctx context.Context, resource string) (string, error) {
				return call(ctx, c.conn.Load(), methodRead, resource)
			},
			Delete: func(ctx context.Context, resource string, tok guard.Token) error {
				_, err := call(guard.NewContext(ctx, resource, tok), c.conn.Load(), methodDelete, "")
				return err
			},
			Restart: func(context.Context) error {
				stop()
				stop = start()
				return nil
			},
			LoseReply:   write("reply"),
			LoseRequest: write("request"),
		}
	})
}
