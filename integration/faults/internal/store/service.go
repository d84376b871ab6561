//go:build unix

package store

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
)

// Service is a program with a database of its own, that others reach over HTTP and gRPC only. It hands the tokens that come
// with their requests to the guard of its database.
type Service struct {
	HTTP string // its URL
	GRPC string // its host:port

	db      Store
	guarded bool

	mu  sync.Mutex // guards all below
	web *http.Server
	rpc *grpc.Server
	wg  sync.WaitGroup
}

// serviceData is where the service keeps its data.
func serviceData(p Places) Places { return Places{SQLite: p.Service} }

// StartService serves until Stop.
func StartService(ctx context.Context, p Places, guarded bool) (*Service, error) {
	db, err := sqlite.Open(ctx, serviceData(p), guarded)
	if err != nil {
		return nil, err
	}
	s := &Service{db: db, guarded: guarded}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func (s *Service) listen() error {
	web, err := net.Listen("tcp", addressOr(strings.TrimPrefix(s.HTTP, "http://")))
	if err != nil {
		return err
	}
	rpc, err := net.Listen("tcp", addressOr(s.GRPC))
	if err != nil {
		return errors.Join(err, web.Close())
	}
	s.HTTP, s.GRPC = "http://"+web.Addr().String(), rpc.Addr().String()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.web = &http.Server{Handler: s.handler()}
	s.rpc = s.server()
	w, r := s.web, s.rpc
	s.wg.Go(func() { _ = w.Serve(web) }) // always an error, that of Close
	s.wg.Go(func() { _ = r.Serve(rpc) })
	return nil
}

func addressOr(known string) string {
	if known == "" {
		return "127.0.0.1:0"
	}
	return known
}

// Restart cuts all connections and serves again on the same ports. What is under way in the database goes on.
func (s *Service) Restart() error {
	s.cut()
	return s.listen()
}

// Stop ends it.
func (s *Service) Stop() error {
	s.cut()
	return s.db.Close()
}

func (s *Service) cut() {
	s.mu.Lock()
	web, rpc := s.web, s.rpc
	s.mu.Unlock()
	_ = web.Close() // its listener's error says nothing that matters
	rpc.Stop()
	s.wg.Wait()
}

// request is what the body of a request says.
type request struct {
	Resource string
	Do       string // "read", "highest", "journal", "seal" or "write"
	Write    Write
}

// do is the service's work. The resource and the token are those of the context.
func (s *Service) do(ctx context.Context, body []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	resource, tok, _ := guard.FromContext(ctx)
	if s.guarded && (r.Do == "seal" || r.Do == "write") {
		r.Resource = resource // what the lock protects, and nothing else
	}
	switch r.Do {
	case "seal":
		return nil, s.db.Seal(ctx, r.Resource, tok)
	case "write":
		return nil, s.db.Write(ctx, r.Resource, tok, r.Write)
	case "highest":
		highest, err := s.db.Highest(ctx, r.Resource)
		if err != nil {
			return nil, err
		}
		return json.Marshal(int64(highest))
	case "journal":
		ops, err := s.db.Journal(ctx, r.Resource)
		if err != nil {
			return nil, err
		}
		return json.Marshal(ops)
	}
	d, err := s.db.Read(ctx, r.Resource)
	if err != nil {
		return nil, err
	}
	return json.Marshal(d)
}

func (s *Service) handler() http.Handler {
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			// The client's leaving is no reason to stop halfway.
			body, err = s.do(context.WithoutCancel(r.Context()), body)
		}
		switch {
		case err == nil:
			_, _ = w.Write(body) // a client that has gone gets nothing
		case !httpguard.WriteError(w, err):
			http.Error(w, err.Error(), http.StatusServiceUnavailable) // the guard says: certainly not applied
		}
	})
	if !s.guarded {
		return work
	}
	return httpguard.Handler(work, &httpguard.Options{Optional: func(r *http.Request) bool { return r.Method == http.MethodGet }})
}

func (s *Service) server() *grpc.Server {
	var opts []grpc.ServerOption
	if s.guarded {
		opts = append(opts, grpc.ChainUnaryInterceptor(grpcguard.UnaryServerInterceptor(&grpcguard.Options{
			Optional: func(_ context.Context, method string) bool { return strings.HasSuffix(method, "/CacheableUnaryCall") },
		})))
	}
	r := grpc.NewServer(opts...)
	pb.RegisterTestServiceServer(r, &rpcService{s: s})
	return r
}

// rpcService is the service as protoc makes it: CacheableUnaryCall reads, UnaryCall writes.
type rpcService struct {
	pb.UnimplementedTestServiceServer
	s *Service
}

func (r *rpcService) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	body, err := r.s.do(context.WithoutCancel(ctx), in.GetPayload().GetBody())
	if err != nil && grpcguard.Error(err) == err {
		err = status.Error(codes.Aborted, err.Error()) // the guard says: certainly not applied
	}
	return &pb.SimpleResponse{Payload: &pb.Payload{Body: body}}, err
}

func (r *rpcService) CacheableUnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	return r.UnaryCall(ctx, in)
}
