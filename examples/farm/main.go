// Command farm renders the frames of a film, at most two at once on one agent, and says how long that took.
// It is written twice: with package
// taskset (set.go), and with -by-hand on what that is made of (hand.go).
//
//	farm -frames 200 -- render.sh
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

// perAgent is how many frames one agent renders at a time.
const perAgent = 2

// need is what one frame asks for.
var need = api.Scalars(0.1, 32)

// config is the framework's configuration, whichever scheduler it has.
func config(masters []string) framework.Config {
	return framework.Config{Name: "farm", Masters: masters, ConnectTimeout: 10 * time.Second, TeardownAtEnd: true}
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("farm: ")
	master := flag.String("master", cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), "gRPC `addresses` of masters, joined by commas (or TENDER_MASTER)")
	frames := flag.Int("frames", 200, "`number` of frames")
	byHand := flag.Bool("by-hand", false, "schedule without package taskset")
	flag.Parse()
	command := api.Command{Argv: flag.Args()}
	if len(command.Argv) == 0 {
		command.Argv = []string{"sleep", "0.3"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	if err := render(ctx, config(strings.Split(*master, ",")), *frames, command, *byHand); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d frames in %.1f s\n", *frames, time.Since(began).Seconds())
}

func render(ctx context.Context, config framework.Config, frames int, command api.Command, byHand bool) error {
	if frames < 1 {
		return errors.New("-frames must be at least 1")
	}
	if byHand {
		ctx, end := context.WithCancel(ctx)
		defer end()
		return framework.Run(ctx, config, newHand(frames, command, end))
	}
	set, err := newSet(frames, command)
	if err != nil {
		return err
	}
	return errors.Join(framework.Run(ctx, config, set), set.Err())
}
