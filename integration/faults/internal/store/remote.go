//go:build unix

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
	"github.com/fencedlock/fencedlock/integration/faults/internal/history"
)

func serviceInit(ctx context.Context, p Places, resource string) error {
	return sqlite.Init(ctx, serviceData(p), resource)
}

var httpKind = Kind{
	Name: "http",
	Init: serviceInit,
	Open: func(_ context.Context, p Places, guarded bool) (Store, error) {
		s := &remoteStore{guarded: guarded}
		base := &http.Transport{DialContext: s.sent.dial}
		client := &http.Client{Transport: base}
		if guarded {
			client.Transport = &httpguard.Transport{Base: base}
		}
		s.call = func(ctx context.Context, do string, body []byte) ([]byte, error) {
			method := http.MethodGet
			if changes(do) {
				method = http.MethodPost
			}
			req, err := http.NewRequestWithContext(ctx, method, p.HTTP+"/"+do, bytes.NewReader(body))
			if err != nil {
				return nil, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			switch {
			case resp.StatusCode != http.StatusOK:
				return nil, fmt.Errorf("store: http: %s: %s", resp.Status, text)
			case err != nil && changes(do):
				err = fmt.Errorf("%w: %w", guard.ErrUnknown, err)
			}
			return text, err
		}
		s.close = func() error {
			base.CloseIdleConnections()
			return nil
		}
		return s, nil
	},
}

var grpcKind = Kind{
	Name: "grpc",
	Init: serviceInit,
	Open: func(_ context.Context, p Places, guarded bool) (Store, error) {
		s := &remoteStore{guarded: guarded}
		opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(s.sent.dialTCP)}
		if guarded {
			opts = append(opts, grpc.WithChainUnaryInterceptor(grpcguard.UnaryClientInterceptor(nil)))
		}
		conn, err := grpc.NewClient("passthrough:///"+p.GRPC, opts...)
		if err != nil {
			return nil, err
		}
		service := pb.NewTestServiceClient(conn)
		s.call = func(ctx context.Context, do string, body []byte) ([]byte, error) {
			call := service.CacheableUnaryCall
			if changes(do) {
				call = service.UnaryCall
			}
			resp, err := call(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: body}})
			return resp.GetPayload().GetBody(), err
		}
		s.close = conn.Close
		return s, nil
	},
}

// remoteStore is the data of the service, over one of its protocols.
type remoteStore struct {
	call    func(ctx context.Context, do string, body []byte) ([]byte, error)
	sent    halfway
	guarded bool
	close   func() error
}

func (s *remoteStore) send(ctx context.Context, tok guard.Token, r request) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if changes(r.Do) && s.guarded {
		ctx = guard.NewContext(ctx, r.Resource, tok)
	}
	return s.call(ctx, r.Do, body)
}

func (s *remoteStore) Seal(ctx context.Context, resource string, tok guard.Token) error {
	if !s.guarded {
		return nil
	}
	_, err := s.send(ctx, tok, request{Resource: resource, Do: "seal"})
	return err
}

func (s *remoteStore) Highest(ctx context.Context, resource string) (tok guard.Token, err error) {
	text, err := s.send(ctx, 0, request{Resource: resource, Do: "highest"})
	if err != nil {
		return 0, err
	}
	var n int64
	err = json.Unmarshal(text, &n)
	return guard.Token(n), err
}

func (s *remoteStore) Read(ctx context.Context, resource string) (d history.Doc, err error) {
	text, err := s.send(ctx, 0, request{Resource: resource, Do: "read"})
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}

func (s *remoteStore) Journal(ctx context.Context, resource string) (ops []string, err error) {
	text, err := s.send(ctx, 0, request{Resource: resource, Do: "journal"})
	if err != nil {
		return nil, err
	}
	return ops, json.Unmarshal(text, &ops)
}

func (s *remoteStore) Write(ctx context.Context, resource string, tok guard.Token, w Write) error {
	defer s.sent.expect(w)()
	_, err := s.send(ctx, tok, request{Resource: resource, Do: "write", Write: w})
	if err != nil && !s.guarded {
		return unguarded(err)
	}
	return err
}

func (s *remoteStore) Close() error { return s.close() }
