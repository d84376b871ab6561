//go:build unix

package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
	"github.com/fencedlock/fencedlock/guard/httpguard"
	"github.com/fencedlock/fencedlock/internal/child"
)

// ServiceConfig is all that a service is told at its start, as JSON.
type ServiceConfig struct {
	Places  Places // Service says where its data is; HTTP and GRPC where it serves, "" for any port of 127.0.0.1
	Guarded bool
}

// service is a program with a database of its own, that others reach over HTTP and gRPC only. It hands the tokens that come
// with their requests to the guard of its database.
type service struct {
	db      Store
	guarded bool
}

// serviceData is where the service keeps its data.
func serviceData(p Places) Places { return Places{SQLite: p.Service} }

// RunService is the role of a process that is the service. It says "serves URL HOST:PORT", and does so until it is killed.
func RunService(self *child.Self) error {
	if len(self.Args) != 1 {
		return errors.New("store: want one argument, the ServiceConfig as JSON")
	}
	var cfg ServiceConfig
	if err := json.Unmarshal([]byte(self.Args[0]), &cfg); err != nil {
		return fmt.Errorf("store: ServiceConfig: %w", err)
	}
	db, err := sqlite.Open(context.Background(), serviceData(cfg.Places), cfg.Guarded)
	if err != nil {
		return err
	}
	s := &service{db, cfg.Guarded}
	web, err := net.Listen("tcp", addressOr(strings.TrimPrefix(cfg.Places.HTTP, "http://")))
	if err != nil {
		return err
	}
	rpc, err := net.Listen("tcp", addressOr(cfg.Places.GRPC))
	if err != nil {
		return err
	}
	ended := make(chan error)
	go func() { ended <- http.Serve(web, s.handler()) }()
	go func() { ended <- s.server().Serve(rpc) }()
	self.Say("serves http://%s %s", web.Addr(), rpc.Addr())
	return <-ended
}

func addressOr(known string) string {
	if known == "" {
		return "127.0.0.1:0"
	}
	return known
}

// request is what the body of a request says.
type request struct {
	Resource string
	Do       string // "read", "highest", "journal", "seal" or "write"
	Write    Write
}

// changes tells whether what is asked for needs a token.
func changes(do string) bool { return do == "seal" || do == "write" }

// WriteOverHTTP tells whether a request to the service is a write.
func WriteOverHTTP(r *http.Request) bool { return r.URL.Path == "/write" }

// WriteInJSON tells whether what is sent to the service is, or has in it, the body of a write.
func WriteInJSON(text []byte) bool { return bytes.Contains(text, []byte(`"Do":"write"`)) }

// do is the service's work. The resource and the token are those of the context.
func (s *service) do(ctx context.Context, body []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, err
	}
	resource, tok, _ := guard.FromContext(ctx)
	if s.guarded && changes(r.Do) {
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

func (s *service) handler() http.Handler {
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

func (s *service) server() *grpc.Server {
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
	s *service
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
