// Command wordcount is a framework with an executor of its own: it counts the words
// of every file below a folder, split into tasks over the cluster, and prints the
// most frequent ones. The same binary is the scheduler and, when an agent starts it,
// the executor.
//
//	wordcount -dir "$(go env GOROOT)/src" -verify
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("wordcount: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if executor.Active() {
		exitOn(executor.Run(ctx, countTask))
		return
	}
	options, err := parseFlags()
	exitOn(err)
	exitOn(run(ctx, options))
}

func exitOn(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

type options struct {
	masters  []string
	dir      string
	tasks    int
	top      int
	verify   bool
	progress string
}

func parseFlags() (options, error) {
	var o options
	master := os.Getenv("TENDER_MASTER")
	if master == "" {
		master = "127.0.0.1:5060"
	}
	flag.StringVar(&master, "master", master, "gRPC `addresses` of masters, joined by commas (or TENDER_MASTER)")
	flag.StringVar(&o.dir, "dir", "", "`folder` to count; default: the source of Go's standard library")
	flag.IntVar(&o.tasks, "tasks", 300, "`number` of tasks to split the work into")
	flag.IntVar(&o.top, "top", 20, "`number` of words to print")
	flag.BoolVar(&o.verify, "verify", false, "count again in this one process and compare")
	flag.StringVar(&o.progress, "progress", "auto", "bar, lines or auto: a bar on a terminal")
	flag.Parse()
	o.masters = strings.Split(master, ",")
	switch {
	case flag.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; all options are flags, see -help", flag.Arg(0))
	case o.tasks < 1:
		return o, fmt.Errorf("-tasks is %d; it must be at least 1", o.tasks)
	case o.progress != "auto" && o.progress != "bar" && o.progress != "lines":
		return o, fmt.Errorf("-progress is %q; it must be bar, lines or auto", o.progress)
	case o.dir == "":
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return o, fmt.Errorf("cannot find Go's source (%w); name a folder with -dir", err)
		}
		o.dir = filepath.Join(strings.TrimSpace(string(root)), "src")
	}
	return o, nil
}

// run counts the words on the cluster, prints the result, and verifies it if asked to.
func run(ctx context.Context, o options) error {
	files, err := listFiles(o.dir)
	if err != nil {
		return err
	}
	chunks := split(files, o.tasks)
	fmt.Printf("below %s: files %d, in tasks %d\n", o.dir, len(files), len(chunks))

	start := time.Now()
	counting, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	self, err := executor.Self("counter")
	if err != nil {
		return err
	}
	self.Resources = api.Scalars(0.1, 64)
	c := newCount(newProgress(os.Stderr, o.progress, len(chunks)), fail)
	set, err := newSet(c, chunks, self)
	if err != nil {
		return err
	}
	config := framework.Config{Name: "wordcount", Masters: o.masters, ConnectTimeout: 10 * time.Second, TeardownAtEnd: true}
	if err := framework.Run(counting, config, set); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; its tasks are being killed")
	}
	if err := context.Cause(counting); err != nil {
		return err
	}
	report(os.Stdout, c, set.Numbers(), o.top, time.Since(start))
	if o.verify {
		return verify(files, c.words)
	}
	return nil
}

// verify counts everything again without a cluster.
func verify(files []file, counts counts) error {
	start := time.Now()
	plain := counts.empty()
	for _, file := range files {
		if err := plain.addFile(file.path); err != nil {
			return err
		}
	}
	if word, ok := plain.equal(counts); !ok {
		return fmt.Errorf("the counts differ: %q is counted %d times on the cluster and %d times in one process",
			word, counts[word], plain[word])
	}
	fmt.Printf("verified: one process counts the same %d words in %.1f s\n", plain.total(), time.Since(start).Seconds())
	return nil
}
