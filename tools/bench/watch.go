package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/tools/devcluster"
)

// watch measures what watch and history cost a leader at full lives a second, in turns with nobody, one and ten who watch.
func watch(ctx context.Context, o options) error {
	cluster, err := devcluster.Start(ctx, devcluster.Options{
		Binary: o.binary, Parent: o.dir, Insecure: true, Masters: 3, Agents: 2, Processes: true, Args: []string{"--agent-resources", "cpus:64;mem:65536"},
	})
	if err != nil {
		return err
	}
	return errors.Join(watchedLives(ctx, cluster, o), cluster.Stop())
}

func watchedLives(ctx context.Context, cluster *devcluster.Cluster, o options) error {
	leader, err := leaderOf(ctx, cluster)
	if err != nil {
		return err
	}
	self, err := executor.Self("noop")
	if err != nil {
		return err
	}
	counts := []int{0, 1, 10}
	costs, rates, shares, ended := map[int][]float64{}, map[int][]float64{}, map[int][]float64{}, map[int]int{}
	var bare []float64
	for i := range o.runs + 1 {
		for _, n := range counts {
			watchers, err := startWatchers(ctx, n, leader.GRPC, transport.DialTCP)
			if err != nil {
				return err
			}
			if n == 0 && i > 0 {
				pause.For(ctx, unwatchedAfter)
			}
			profile := startProfile(ctx, leader)
			before := ownCPU(leader.PID)
			rate, _, err := throughput(ctx, cluster, &load{task: func(int) api.Task { return api.Task{Executor: self} }, total: o.tasks, window: 2000})
			pause.For(ctx, toldAfter)
			cost := (ownCPU(leader.PID) - before) * 1e6 / float64(o.tasks)
			share, failed := profile.shareOf(`master/history|master/internal/watching|core\.\(.*\)\.note`)
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			if broken := watchers.stop(); i > 0 { // before that it warms up
				costs[n], rates[n], shares[n], ended[n] = append(costs[n], cost), append(rates[n], rate), append(shares[n], share), ended[n]+broken
			}
			if n == 10 && i > 0 {
				sent, err := bareTold(ctx, n, watchers.heard.messages.Load()/int64(n), watchers.heard.bytes.Load()/watchers.heard.messages.Load())
				if err != nil {
					return fmt.Errorf("bare: %w", err)
				}
				bare = append(bare, sent*1e6/float64(o.tasks))
			}
		}
	}
	for _, n := range counts {
		row(fmt.Sprintf("a life of an empty task, %d watch all of it: what the leader's own process takes", n),
			fmt.Sprintf("%.0f µs (%.0f to %.0f), %.2f of that without", median(costs[n]), slices.Min(costs[n]), slices.Max(costs[n]), median(costs[n])/median(costs[0])),
			fmt.Sprintf("%.1f %% of it in watch and history, by its profile; %.0f lives/s; %d watches ended", median(shares[n]), median(rates[n]), ended[n]))
	}
	atMost("% of a leader's time for watch and history", median(shares[0]), 5)
	row("a process that sends ten connections as many bytes, in as many messages", fmt.Sprintf("%.0f µs (%.0f to %.0f) a life", median(bare), slices.Min(bare), slices.Max(bare)), "gRPC, encoded before")
	atMost("% that ten who watch add to a leader's time", 100*(median(costs[10])/median(costs[0])-1), 10)
	limited(100 * median(bare) / median(costs[0]))
	return nil
}

// toldAfter is how long after the last life everything has been told: what is shown is read once a second.
const toldAfter = 1500 * time.Millisecond

// unwatchedAfter is how long after the last watcher has left a leader still prepares for one that comes back.
const unwatchedAfter = 31 * time.Second

// watchers read everything that a master tells of the cluster, each by a connection of its own, and decode none of it: the
// processors are the masters'.
type watchers struct {
	end    context.CancelFunc
	ended  sync.WaitGroup
	heard  *undecoded
	mu     sync.Mutex
	broken int // guarded by mu
}

func startWatchers(ctx context.Context, n int, address string, dial trust.Dial) (*watchers, error) {
	w := &watchers{heard: new(undecoded)}
	ctx, w.end = context.WithCancel(ctx)
	for range n {
		conn, err := transport.Connect(address, dial)
		if err != nil {
			w.stop()
			return nil, err
		}
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, apiv1.WatchService_Watch_FullMethodName, grpc.ForceCodecV2(w.heard))
		if err == nil {
			err = errors.Join(stream.SendMsg(&apiv1.WatchRequest{}), stream.CloseSend(), stream.RecvMsg(nil)) // its first answer has begun the watch
		}
		if err != nil {
			w.stop()
			return nil, errors.Join(err, conn.Close())
		}
		w.ended.Go(func() {
			defer conn.Close()
			for stream.RecvMsg(nil) == nil { // what was told is dropped
			}
			if ctx.Err() == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.broken++
			}
		})
	}
	return w, nil
}

// stop ends the watches, and returns how many have ended before, such as because they read too slowly.
func (w *watchers) stop() int {
	w.end()
	w.ended.Wait()
	return w.broken
}

// undecoded is the codec of streams that are read and dropped. It counts.
type undecoded struct{ messages, bytes atomic.Int64 }

func (*undecoded) Name() string { return "proto" }
func (u *undecoded) Unmarshal(data mem.BufferSlice, _ any) error {
	u.messages.Add(1)
	u.bytes.Add(int64(data.Len()))
	return nil
}

func (*undecoded) Marshal(message any) (mem.BufferSlice, error) {
	if encoded, is := message.(mem.BufferSlice); is {
		return encoded, nil
	}
	text, err := proto.Marshal(message.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(text)}, err
}

// profile is where a master's processor time goes, as its own profile says.
type profile struct {
	content []byte
	done    chan error
}

// profileSeconds is how long a profile takes: no longer than a run of 20,000 lives.
const profileSeconds = 2

func startProfile(ctx context.Context, master devcluster.Node) *profile {
	p := &profile{done: make(chan error, 1)}
	go func() {
		var err error
		p.content, err = get(ctx, http.DefaultClient, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", master.HTTP, profileSeconds))
		p.done <- err
	}()
	return p
}

// accounted is in the heading of what pprof prints.
var accounted = regexp.MustCompile(`Showing nodes accounting for .*?, ([\d.]+)% of`)

// shareOf returns how many percent of the time functions took whose names match, with what they called.
func (p *profile) shareOf(functions string) (share float64, err error) {
	if err := <-p.done; err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "profile-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "leader.pprof")
	if err := os.WriteFile(file, p.content, 0o600); err != nil {
		return 0, err
	}
	said, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=1", "-focus", functions, file).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("go tool pprof: %w: %s", err, said)
	}
	if strings.Contains(string(said), "did not match any samples") {
		return 0, nil
	}
	found := accounted.FindSubmatch(said)
	if found == nil {
		return 0, fmt.Errorf("go tool pprof says nothing of a share: %s", said)
	}
	_, err = fmt.Sscan(string(found[1]), &share)
	return share, err
}
