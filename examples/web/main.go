// Command web keeps three web servers running, at most one on an agent, and a file that says where
// they are, as a load balancer reads it. Start it twice: one instance works, the other waits. One with
// another command replaces the servers one by one when it takes over.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/taskset"
)

// newWeb returns the scheduler for n servers.
func newWeb(n int, command, file string) (*taskset.Set, error) {
	var set *taskset.Set
	set = taskset.New(taskset.Config{
		Apart:   api.ByAgent,
		Updated: func(string, api.Status) { write(file, set.Tasks()) },
	})
	web := taskset.Item{Task: api.Task{
		Resources: api.Scalars(0.2, 64),
		Ports:     map[string]uint16{"http": 0}, // any port that is free there
		Command:   &api.Command{Shell: command},
		Checks:    []api.Check{{Readiness: true, TCP: &api.TCPCheck{Port: "http"}, Interval: time.Second}},
	}}
	if err := set.Scale(context.Background(), "web", web, n); err != nil {
		return nil, err
	}
	// Servers of an earlier program that run another command are replaced one after the other.
	return set, set.Roll(context.Background(), "web", web, taskset.Rolling{Proof: 5 * time.Second})
}

// write writes where the servers are. The file is replaced in one step, so nobody reads half of it.
func write(file string, tasks []taskset.Task) {
	var text strings.Builder
	for _, task := range tasks {
		if at := task.Status; task.Up {
			fmt.Fprintf(&text, "server %s:%d; # %s on %s\n", at.Hostname, at.Ports["http"], task.Item, at.Agent)
		}
	}
	err := os.WriteFile(file+".new", []byte(text.String()), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		log.Print(err)
	}
}

func main() {
	command := flag.String("command", "exec python3 -m http.server $TENDER_TASK_PORT_HTTP", "`line` for the shell that serves at its port")
	file := flag.String("file", "servers.conf", "`file` to keep")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	set, err := newWeb(3, *command, *file)
	if err != nil {
		log.Fatal(err)
	}
	masters := strings.Split(cmp.Or(os.Getenv("TENDER_MASTER"), framework.DefaultMaster), ",")
	config := framework.Config{Name: "web", Standby: true, Masters: masters, TeardownAtEnd: true}
	if err := framework.Run(ctx, config, set); err != nil {
		log.Fatal(err)
	}
}
