package main

import (
	"context"
	"flag"
	"net"
	"os"
	"testing"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/allocatortest"
	"github.com/tenderhq/tender/allocator/remote"
)

// TestFair: the program serves a policy that is fair, through the wire. What every allocator does through the wire is
// checked where that is made, by the suite in allocator/remote.
func TestFair(t *testing.T) {
	fewer(t)
	allocatortest.Fair(t, connect(t, start(t)))
}

// start runs the server until the test is over.
func start(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, remote.ServeConfig{Listener: listener}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// connect makes a master's half for each allocator that the suite asks for: the server
// makes a policy for each.
func connect(t *testing.T, address string) func() allocator.Allocator {
	var last []*remote.Prompt
	leave := func(keep int) {
		for len(last) > keep {
			if err := last[0].Err(); err != nil {
				t.Error(err)
			}
			last[0].Close()
			last = last[1:]
		}
	}
	t.Cleanup(func() { leave(0) })
	return func() allocator.Allocator {
		leave(3) // the suite uses no more at a time
		half, err := remote.New(allocator.Config{Argument: address})
		if err != nil {
			t.Fatal(err)
		}
		p, err := remote.NewPrompt(context.Background(), half, nil)
		if err != nil {
			t.Fatal(err)
		}
		last = append(last, p)
		return p
	}
}

// fewer checks of each property do every day: each step waits for the network.
func fewer(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	if os.Getenv("TENDER_TEST_LONG") != "" || checks.Value.String() != checks.DefValue {
		return
	}
	if err := flag.Set(checks.Name, "10"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set(checks.Name, checks.DefValue) })
}
