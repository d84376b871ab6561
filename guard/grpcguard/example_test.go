package grpcguard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/fencedlock/fencedlock/guard"
	"github.com/fencedlock/fencedlock/guard/grpcguard"
)

// prices is a service as protoc makes it; UnaryCall sets the price. The price lives in its memory, and so does the guard.
type prices struct {
	pb.UnimplementedTestServiceServer
	gate  guard.Gate
	price string
}

func (p *prices) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	resource, tok, _ := guard.FromContext(ctx)
	return &pb.SimpleResponse{}, p.gate.Do(resource, tok, func() error {
		p.price = string(in.GetPayload().GetBody())
		return nil
	})
}

// The holder with token 7 is paused; its successor with token 9 sets the price first. The late call is refused by the guard
// in the service, and arrives as a StaleError.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	service := &prices{}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpcguard.UnaryServerInterceptor(&grpcguard.Options{
			Resource: func(method string, req any) string { return "price/apple" }, // the only one that there is
		})),
		grpc.ChainStreamInterceptor(grpcguard.StreamServerInterceptor(nil)))
	pb.RegisterTestServiceServer(server, service)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()

	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
		grpc.WithChainUnaryInterceptor(grpcguard.UnaryClientInterceptor(nil)),
		grpc.WithChainStreamInterceptor(grpcguard.StreamClientInterceptor(nil)),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	set := func(ctx context.Context, value string) error {
		_, err := pb.NewTestServiceClient(conn).UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: []byte(value)}})
		return err
	}

	// In a program these are the contexts of held locks.
	first := guard.NewContext(context.Background(), "price/apple", 7)
	successor := guard.NewContext(context.Background(), "price/apple", 9)
	fmt.Println(set(successor, "120"))
	err = set(first, "90")
	var stale *guard.StaleError
	fmt.Println(errors.As(err, &stale), stale.Highest, service.price)
	fmt.Println(errors.Is(set(context.Background(), "80"), guard.ErrNoToken), service.price)
	// Output:
	// <nil>
	// true 9 120
	// true 120
}
