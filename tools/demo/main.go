// Command demo is what `make demo`, demo-jobs, demo-rdd and demo-share run: each part starts a cluster on this machine,
// has something happen on it, fails where that does not end as it should, and leaves nothing running.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tenderhq/tender/tools/devcluster"
)

// hangAfter limits each part. It takes a minute or two on a laptop.
const hangAfter = 15 * time.Minute

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("demo: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, hangAfter, fmt.Errorf("the demo has not ended for %v", hangAfter))
	defer cancel()
	binary := flag.String("binary", "bin/tender", "`path` of tender")
	gb := flag.Float64("gb", 1, "how many `GB` of points rdd learns from")
	chaos := flag.Bool("chaos", false, "count: kill the leading master halfway")
	flag.Parse()
	parts := map[string]func(context.Context) error{
		"count": func(ctx context.Context) error { return count(ctx, *binary, *chaos) },
		"jobs":  func(ctx context.Context) error { return playJobs(ctx, *binary) },
		"rdd": func(ctx context.Context) error {
			return (&learning{agents: 4, iterations: 10, plain: 3, gb: *gb, memory: 1024, binary: *binary}).run(ctx)
		},
		"share": func(ctx context.Context) error { return (&sharing{binary: *binary}).run(ctx) },
	}
	part := parts[flag.Arg(0)]
	if part == nil {
		log.Fatal("name a part: count, jobs, rdd or share")
	}
	if err := part(ctx); err != nil {
		log.Fatal(errors.Join(err, context.Cause(ctx)))
	}
	log.Print("done; nothing is left running")
}

// stage is the cluster of a part.
type stage struct {
	*devcluster.Cluster
	binary string
}

// open starts a cluster. Its Stop must be called.
func open(ctx context.Context, options devcluster.Options) (stage, error) {
	cluster, err := devcluster.Start(ctx, options)
	if err != nil {
		return stage{}, fmt.Errorf("starting the cluster: %w", err)
	}
	return stage{cluster, options.Binary}, nil
}

// build builds a program of the examples, and returns its path.
func build(ctx context.Context, dir, example string) (path string, err error) {
	path = filepath.Join(dir, filepath.Base(example))
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "grpcnotrace", "-o", path, "github.com/tenderhq/tender/examples/"+example).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building examples/%s: %w\n%s", example, err, out)
	}
	return path, nil
}

// tender runs a command of the command line.
func (s stage) tender(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, s.binary, append(args, "--master", s.MasterAddresses())...)
	command.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return out, fmt.Errorf("tender %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

// killLeader kills the leading master without a warning.
func (s stage) killLeader(ctx context.Context) error {
	out, err := s.tender(ctx, "", "get", "masters", "-o", "json")
	if err != nil {
		return fmt.Errorf("asking for the leader: %w", err)
	}
	var list struct {
		Items []struct{ ID, State string }
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		for _, master := range s.Masters {
			if item.State == "leader" && item.ID == master.ID {
				log.Printf("kill -9 %d: master %s, which leads", master.PID, master.ID)
				return syscall.Kill(master.PID, syscall.SIGKILL)
			}
		}
	}
	return fmt.Errorf("no master leads: %s", bytes.TrimSpace(out))
}
