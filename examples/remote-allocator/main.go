// Command remote-allocator is an allocator in a process of its own. Here it serves the
// built-in fairshare; put your policy in its place, or speak the protocol of
// api/v1/allocator.proto in any other language.
//
//	go run ./examples/remote-allocator &
//	tender dev --allocator remote:127.0.0.1:7070
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/allocator/remote"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

func main() {
	address := flag.String("listen", "127.0.0.1:7070", "address for the masters")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("allocator on ", listener.Addr())
	if err := serve(ctx, listener); err != nil {
		log.Fatal(err)
	}
}

// serve answers masters until ctx ends.
func serve(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer()
	apiv1.RegisterAllocatorServiceServer(server, &remote.Server{Policy: fairshare.New})
	over := context.AfterFunc(ctx, server.Stop)
	defer over()
	return server.Serve(listener)
}
