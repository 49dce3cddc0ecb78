// Command batch is a framework for a list of files, each of which may sit on some hosts:
// it computes their SHA-256 where they are, tries again what fails, and copies stragglers.
// The same binary is the scheduler and, when an agent starts it, the executor.
//
//	batch /data/a /data/b@node-3,node-7
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/locality"
	"github.com/tenderhq/tender/framework/taskset"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("batch: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := executor.Main(ctx, sum, schedule); err != nil {
		log.Fatal(err)
	}
}

// sum runs one task in the executor. An error makes the attempt a failed one.
func sum(_ context.Context, task *executor.Task) error {
	file, err := os.Open(string(task.Data))
	if err != nil {
		return err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	task.SetResult(fmt.Appendf(nil, "%x", hash.Sum(nil)))
	return nil
}

// schedule reads the flags and runs the batch.
func schedule(ctx context.Context) error {
	master := flag.String("master", cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), "gRPC `addresses` of masters, joined by commas (or TENDER_MASTER)")
	wait := flag.Duration("wait", 3*time.Second, "how long to hold out for a host that has the file")
	attempts := flag.Int("attempts", 3, "`number` of times that a file is tried")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("name the files to sum, each as PATH or PATH@HOST,HOST")
	}
	self, err := executor.Self("sum")
	if err != nil {
		return err
	}
	b := batch{executor: self, wait: *wait, attempts: *attempts, out: os.Stdout}
	set, err := b.set(flag.Args())
	if err != nil {
		return err
	}
	config := framework.Config{Name: "batch", Masters: strings.Split(*master, ","), ConnectTimeout: 10 * time.Second, TeardownAtEnd: true}
	if err := framework.Run(ctx, config, set); err != nil {
		return err
	}
	n, l := set.Numbers(), set.Locality()
	fmt.Fprintf(os.Stderr, "files done: %d, given up: %d, attempts: %d; %d of %d where they are, mean wait %v\n",
		n.Done, n.GivenUp, n.Attempts, l.Launched[locality.Node], l.Tasks(), l.MeanWait().Round(time.Millisecond))
	return errors.Join(ctx.Err(), set.Err())
}

type batch struct {
	executor *api.Executor
	wait     time.Duration
	attempts int
	out      io.Writer
}

// set returns a task set with an item for each file; PATH@HOST,HOST says on which hosts a file is.
func (b batch) set(files []string) (*taskset.Set, error) {
	set := taskset.New(taskset.Config{
		Attempts:  b.attempts,
		Speculate: 1.5,
		Locality:  locality.Config{Node: locality.Wait{Time: b.wait}},
		Ended: func(outcome taskset.Outcome) {
			if outcome.Done {
				fmt.Fprintf(b.out, "%s  %s\n", outcome.Status.Data, files[number(outcome.Item)])
			}
		},
	})
	for i, file := range files {
		path, hosts, some := strings.Cut(file, "@")
		files[i] = path
		item := taskset.Item{
			ID:   fmt.Sprint("file-", i),
			Task: api.Task{Name: path, Resources: api.Scalars(0.2, 32), Executor: b.executor, Data: []byte(path)},
		}
		if some {
			item.Prefer.Hostnames = strings.Split(hosts, ",")
		}
		if err := set.Add(context.Background(), item); err != nil {
			return nil, err
		}
	}
	set.Close()
	return set, nil
}

func number(item string) (n int) {
	fmt.Sscanf(item, "file-%d", &n) //nolint:errcheck // the name is ours
	return n
}
