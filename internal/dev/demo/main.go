// Command demo is what `make demo` runs: it starts a cluster of three masters and four
// agents, counts the words of Go's standard library on it, compares with a plain
// count, and stops everything. With CHAOS=1 the masters are processes of their own and
// the leading one is killed (kill -9) halfway.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/tenderhq/tender/internal/dev/devcluster"
)

const (
	tender  = "bin/tender"
	masters = 3
	agents  = 4
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("demo: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("CHAOS") != ""); err != nil {
		log.Fatal(err)
	}
	log.Print("done; nothing is left running")
}

// hangAfter limits the demo. It takes less than a minute on a laptop.
const hangAfter = 15 * time.Minute

func run(ctx context.Context, chaos bool) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hangAfter, fmt.Errorf("the demo has not ended for %v", hangAfter))
	defer cancel()
	log.Printf("starting %d masters and %d agents", masters, agents)
	start := time.Now()
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		Binary: tender, Masters: masters, Agents: agents, Processes: chaos, Log: os.Stderr,
	})
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", errors.Join(err, hung(ctx)))
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	log.Printf("ready after %.1f s", time.Since(start).Seconds())

	wordcount := filepath.Join(cluster.Dir, "wordcount")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", wordcount, "./examples/wordcount").CombinedOutput(); err != nil {
		return fmt.Errorf("building examples/wordcount: %w\n%s", err, out)
	}
	if err := count(ctx, cluster, wordcount, chaos); err != nil {
		return fmt.Errorf("counting words: %w", errors.Join(err, hung(ctx)))
	}
	return nil
}

// hung returns an error if the demo took too long.
func hung(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return nil
}

// showCluster prints the state of the cluster, for finding out what the demo waited for.
func showCluster(cluster *devcluster.Cluster) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, what := range []string{"masters", "agents", "frameworks", "tasks", "offers"} {
		command := exec.CommandContext(ctx, tender, "get", what, "--master", cluster.MasterAddresses())
		out, err := command.CombinedOutput()
		fmt.Fprintf(os.Stderr, "$ tender get %s\n%s", what, out)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// count runs the framework. Its progress shows when half of the work is done.
func count(ctx context.Context, cluster *devcluster.Cluster, wordcount string, chaos bool) error {
	args := []string{"-master", cluster.MasterAddresses(), "-verify"}
	if terminal(os.Stderr) {
		args = append(args, "-progress", "bar")
	}
	half := make(chan struct{})
	command := exec.CommandContext(ctx, wordcount, args...)
	command.Cancel = func() error {
		if hung(ctx) != nil {
			showCluster(cluster)
		}
		return command.Process.Signal(os.Interrupt)
	}
	command.WaitDelay = time.Minute
	command.Stdout = os.Stdout
	command.Stderr = &watch{out: os.Stderr, half: half}
	if err := command.Start(); err != nil {
		return err
	}
	killed := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		select {
		case <-half:
			killed <- killLeader(ctx, cluster, chaos)
		case <-ended:
			killed <- errors.New("the count ended before it was halfway")
		}
	}()
	err := command.Wait()
	close(ended)
	return errors.Join(err, <-killed)
}

// killLeader kills the leading master without a warning, if chaos is wanted.
func killLeader(ctx context.Context, cluster *devcluster.Cluster, chaos bool) error {
	if !chaos {
		return nil
	}
	out, err := exec.CommandContext(ctx, tender, "get", "masters", "--master", cluster.MasterAddresses(), "-o", "json").Output()
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
		for _, master := range cluster.Masters {
			if item.State == "leader" && item.ID == master.ID {
				fmt.Fprintf(os.Stderr, "\ndemo: kill -9 %d: master %s, which leads\n", master.PID, master.ID)
				return syscall.Kill(master.PID, syscall.SIGKILL)
			}
		}
	}
	return fmt.Errorf("no master leads: %s", bytes.TrimSpace(out))
}

func terminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// watch passes a progress report on, and closes half when half of the work is done.
type watch struct {
	out  io.Writer
	half chan struct{}
	done bool
}

var done = regexp.MustCompile(`(\d+)/(\d+) tasks`)

func (w *watch) Write(data []byte) (int, error) {
	for _, match := range done.FindAllSubmatch(data, -1) {
		n, _ := strconv.Atoi(string(match[1])) // it consists of digits
		of, _ := strconv.Atoi(string(match[2]))
		if !w.done && 2*n >= of {
			w.done = true
			close(w.half)
		}
	}
	return w.out.Write(data)
}
