// Command standby keeps some copies of a command running, for ever. Start it three times: one is active,
// the others wait. When the active one is killed, the next goes on where it was: the same framework, the
// same tasks, and what it has written to its store.
//
//	standby -copies 3 -- sleep 1000 &
//	standby -copies 3 -- sleep 1000 &
//	kill -9 %1
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("standby: ")
	master := flag.String("master", cmp.Or(os.Getenv("TENDER_MASTER"), "127.0.0.1:5060"), "gRPC `addresses` of masters, joined by commas (or TENDER_MASTER)")
	name := flag.String("name", "standby", "`name` that all instances share: it is the framework's identity")
	copies := flag.Int("copies", 3, "`number` of copies of the command to keep running")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	keeper, err := newKeeper(*copies, flag.Args())
	if err == nil {
		config := configOf(*name)
		config.Masters = strings.Split(*master, ",")
		fmt.Println("waiting for our turn as", *name)
		err = framework.Run(ctx, config, keeper)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// configOf returns the configuration. High availability takes only a name, and Standby.
func configOf(name string) framework.Config {
	return framework.Config{Name: name, Standby: true, FailoverTimeout: time.Hour}
}

func newKeeper(copies int, command []string) (*keeper, error) {
	switch {
	case copies < 1:
		return nil, fmt.Errorf("-copies is %d; it must be at least 1", copies)
	case len(command) == 0:
		return nil, errors.New("what should run? Say it behind the flags: standby -copies 3 -- sleep 1000")
	}
	return &keeper{slots: make([]slot, copies), command: api.Command{Argv: command}}, nil
}
