package grpcguard_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencedlock/fencedlock/guard/grpcguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The methods of the tests' service, as protoc would have made them.
const (
	methodPut     = "/test.KV/Put"     // BytesValue: writes the resource of the token
	methodDelete  = "/test.KV/Delete"  // BytesValue, not used
	methodSeal    = "/test.KV/Seal"    // BytesValue, not used
	methodRead    = "/test.KV/Read"    // BytesValue: a resource; the answer is its value
	methodHighest = "/test.KV/Highest" // BytesValue: a resource; the answer is its mark
	methodBulk    = "/test.KV/Bulk"    // a stream of BytesValue: writes each; one answer
	methodEach    = "/test.KV/Each"    // a stream of BytesValue, and an answer for each once it is written
)

type handlerFunc func(ctx context.Context, method string, in []byte) ([]byte, error)

// desc describes a service whose methods all do h.
func desc(h handlerFunc) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: "test.KV", HandlerType: (*any)(nil)}
	for _, name := range []string{"Put", "Delete", "Seal", "Read", "Highest"} {
		method := "/test.KV/" + name
		d.Methods = append(d.Methods, grpc.MethodDesc{MethodName: name, Handler: func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			in := &wrapperspb.BytesValue{}
			if err := decode(in); err != nil {
				return nil, err
			}
			call := func(ctx context.Context, req any) (any, error) {
				out, err := h(ctx, method, req.(*wrapperspb.BytesValue).GetValue())
				return wrapperspb.Bytes(out), err
			}
			if interceptor == nil {
				return call(ctx, in)
			}
			return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: method}, call)
		}})
	}
	for _, each := range []bool{false, true} {
		name := map[bool]string{false: "Bulk", true: "Each"}[each]
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: name, ClientStreams: true, ServerStreams: each, Handler: func(_ any, s grpc.ServerStream) error {
			for {
				in := &wrapperspb.BytesValue{}
				if err := s.RecvMsg(in); err == io.EOF {
					break
				} else if err != nil {
					return err
				}
				out, err := h(s.Context(), methodPut, in.GetValue())
				if err != nil {
					return err
				}
				if each {
					if err := s.SendMsg(wrapperspb.Bytes(out)); err != nil {
						return err
					}
				}
			}
			if each {
				return nil
			}
			return s.SendMsg(&emptypb.Empty{})
		}})
	}
	return d
}

// server is a real one on a port of its own.
type server struct {
	*grpc.Server
	addr string

	mu    sync.Mutex
	conns map[string]net.Conn // by the client's address; guarded by mu
}

type rememberingListener struct {
	net.Listener
	s *server
}

func (l rememberingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.s.mu.Lock()
		l.s.conns[c.RemoteAddr().String()] = c
		l.s.mu.Unlock()
	}
	return c, err
}

// hangUp breaks the connection over which a call has come.
func (s *server) hangUp(ctx context.Context) {
	if p, ok := peer.FromContext(ctx); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.conns[p.Addr.String()].Close()
	}
}

// faultKey makes the server lose a call before it is handled, or its answer after it was.
const faultKey = "test-fault"

func (s *server) losing(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	fault := ""
	if v := md.Get(faultKey); len(v) == 1 {
		fault = v[0]
	}
	if fault == "request" {
		s.hangUp(ctx)
		return &emptypb.Empty{}, nil
	}
	out, err := handler(context.WithoutCancel(ctx), req)
	if fault == "reply" {
		s.hangUp(ctx)
	}
	return out, err
}

// serve starts a server that has grpcguard's interceptors with opts, and does h.
func serve(t testing.TB, opts *grpcguard.Options, h handlerFunc) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String(), conns: make(map[string]net.Conn)}
	s.Server = grpc.NewServer(
		grpc.ChainUnaryInterceptor(s.losing, grpcguard.UnaryServerInterceptor(opts)),
		grpc.ChainStreamInterceptor(grpcguard.StreamServerInterceptor(opts)))
	s.RegisterService(desc(h), nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(rememberingListener{l, s}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { s.Stop(); wg.Wait() })
	return s
}

// dial returns a connection without interceptors of ours.
func dial(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func guarded(o *grpcguard.Options) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(grpcguard.UnaryClientInterceptor(o)),
		grpc.WithChainStreamInterceptor(grpcguard.StreamClientInterceptor(o)),
	}
}

func call(ctx context.Context, conn *grpc.ClientConn, method, value string) (string, error) {
	out := &wrapperspb.BytesValue{}
	err := conn.Invoke(ctx, method, wrapperspb.Bytes([]byte(value)), out)
	return string(out.GetValue()), err
}

// bulk writes values on one stream, and each waits for an answer to each.
func bulk(ctx context.Context, conn *grpc.ClientConn, values ...string) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, methodBulk)
	if err != nil {
		return err
	}
	for _, v := range values {
		if err := s.SendMsg(wrapperspb.Bytes([]byte(v))); err != nil {
			break // RecvMsg says why
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return s.RecvMsg(&emptypb.Empty{})
}

func each(ctx context.Context, conn *grpc.ClientConn, values ...string) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, methodEach)
	if err != nil {
		return err
	}
	for _, v := range values {
		_ = s.SendMsg(wrapperspb.Bytes([]byte(v)))
		if err := s.RecvMsg(&wrapperspb.BytesValue{}); err != nil {
			return err
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if err := s.RecvMsg(&wrapperspb.BytesValue{}); err != io.EOF {
		return err
	}
	return nil
}
