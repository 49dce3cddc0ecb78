// Command remote-allocator is an allocator in a process of its own. Here it serves the
// built-in fairshare; put your policy in its place, or speak the protocol of
// api/v1/allocator.proto in any other language.
//
//	go run ./examples/remote-allocator &
//	tender dev --insecure --allocator remote:127.0.0.1:7070
//
// In a cluster with certificates it joins as a framework does, and an operator lets it decide:
//
//	export TENDER_TOKEN=$(tender token create framework --principal policy --role policy)
//	tender grant policy allocate
//	go run ./examples/remote-allocator --master 10.0.0.1:5060 --listen 10.0.0.9:7070
package main

import (
	"cmp"
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"

	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/allocator/remote"
)

func main() {
	address := flag.String("listen", "127.0.0.1:7070", "address for the masters")
	masters := flag.String("master", cmp.Or(os.Getenv("TENDER_MASTER"), "127.0.0.1:5060"), "HOST:PORT,... of some masters, who give it a certificate")
	insecure := flag.Bool("insecure", false, "listen beyond this machine without certificates, on a trusted network")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("allocator on ", listener.Addr())
	if err := serve(ctx, remote.ServeConfig{
		Listener: listener, Token: os.Getenv("TENDER_TOKEN"), Masters: strings.Split(*masters, ","), Insecure: *insecure,
		Failed: func(master string, err error) { log.Printf("no certificate yet of %s: %v", master, err) },
	}); err != nil {
		log.Fatal(err)
	}
}

// serve answers masters until ctx ends.
func serve(ctx context.Context, config remote.ServeConfig) error {
	config.Policy = fairshare.New
	return remote.Serve(ctx, config)
}
