package rdd_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/framework/taskset"
)

// memory is a network within a test.
type memory struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

type listener struct {
	address string
	dialed  chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newMemory() *memory { return &memory{listeners: map[string]*listener{}} }

func (m *memory) network() rdd.Network { return rdd.Network{Listen: m.listen, Dial: m.dial} }

func (m *memory) listen(string) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &listener{address: fmt.Sprint("memory:", len(m.listeners)+1), dialed: make(chan net.Conn), closed: make(chan struct{})}
	m.listeners[l.address] = l
	return l, nil
}

func (m *memory) dial(ctx context.Context, _, address string) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[address]
	m.mu.Unlock()
	if l == nil {
		return nil, errors.New("nobody listens at " + address)
	}
	near, far := net.Pipe()
	select {
	case l.dialed <- far:
		return near, nil
	case <-l.closed:
		return nil, errors.New("nobody listens any more at " + address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialed:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return named(l.address) }

type named string

func (named) Network() string  { return "memory" }
func (n named) String() string { return string(n) }

// slowly takes a tenth of a second for each number.
var slowly = rdd.Map("slowly", func(n int) int {
	<-time.NewTimer(100 * time.Millisecond).C
	computed.Add(1)
	return n
})

// onCluster runs a program on four agents in virtual time.
func onCluster(t *testing.T, cluster frameworktest.Cluster, config rdd.Config,
	story func(h *frameworktest.Handle, c *rdd.Context, f *frameworktest.Framework)) {
	frameworktest.Run(t, withRDD(cluster, &config), func(h *frameworktest.Handle) {
		c, err := rdd.New(config)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		self := &api.Executor{ID: "rdd", Command: api.Command{Argv: []string{"rdd"}}, Resources: api.Scalars(0.1, 32)}
		scheduler, err := c.Scheduler(self)
		if err != nil {
			t.Fatal(err)
		}
		f := h.Start(framework.Config{Name: "rdd"}, scheduler)
		story(h, c, f)
		if err := f.Teardown(); err != nil {
			t.Error(err)
		}
		h.AwaitEmpty()
	})
}

func withRDD(cluster frameworktest.Cluster, config *rdd.Config) frameworktest.Cluster {
	network := newNetworkInBubble()
	config.Network = network
	cluster.Executors = executors(network)
	return cluster
}

// executors are those that a story may need: in mode fine each has an ID of its own.
func executors(network rdd.Network) map[api.ExecutorID]frameworktest.ExecutorFunc {
	all := map[api.ExecutorID]frameworktest.ExecutorFunc{"rdd": rdd.Execute(network)}
	for i := range 20 {
		all[api.ExecutorID(fmt.Sprint("executor-", i+1))] = all["rdd"]
	}
	return all
}

// inBothModes tells a story once with executors that have cpus, and once with cpus that each task is offered.
func inBothModes(t *testing.T, cluster frameworktest.Cluster, config rdd.Config,
	story func(h *frameworktest.Handle, c *rdd.Context, f *frameworktest.Framework)) {
	for _, mode := range []rdd.Mode{rdd.Coarse, rdd.Fine} {
		t.Run(string(mode), func(t *testing.T) {
			config := config
			config.Mode = mode
			onCluster(t, cluster, config, story)
		})
	}
}

// newNetworkInBubble makes the network when it is first used: channels belong to the bubble in which they are made.
func newNetworkInBubble() rdd.Network {
	m := sync.OnceValue(newMemory)
	return rdd.Network{
		Listen: func(host string) (net.Listener, error) { return m().listen(host) },
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			return m().dial(ctx, network, address)
		},
	}
}

// TestExecutorDies: one of four executors dies in the middle of the second pass over cached numbers. What it held is
// computed again, on whoever has room, and the sum of floats is the same to the last digit.
func TestExecutorDies(t *testing.T) {
	inBothModes(t, frameworktest.Cluster{Agents: 4}, rdd.Config{}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
		ctx := h.T().Context()
		computed.Store(0)
		thirds := third.On(slowly.On(rdd.Range(c, 160, 16))).Cache()
		first, err := thirds.Reduce(ctx, add)
		want(t, "computed", int64(160))(computed.Load(), err)
		second := make(chan float64)
		go func() {
			total, err := third.On(slowly.On(rdd.Range(c, 160, 16))).Union(thirds).Reduce(ctx, add)
			if err != nil {
				t.Error(err)
			}
			second <- total
		}()
		h.Advance(2500 * time.Millisecond)
		h.Agent(1).KillExecutor(0)
		total := <-second
		again, err := thirds.Reduce(ctx, add)
		want(t, "the sum", first)(again, err)
		want(t, "twice the sum", first+first)(total, nil)
		if n := computed.Load(); n <= 2*160 || n >= 3*160 {
			t.Errorf("%d numbers were computed; what was lost of 320, and only that, should have been again", n)
		}
	})
}

// TestMachineAndMasterDie while a shuffle is on its way.
func TestMachineAndMasterDie(t *testing.T) {
	cluster := frameworktest.Cluster{Masters: 3, Agents: 4, TombstoneAfter: 10 * time.Second}
	inBothModes(t, cluster, rdd.Config{Executors: 3}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			groups, err := rdd.GroupByKey(tens.On(slowly.On(rdd.Range(c, 300, 12)))).Count(h.T().Context())
			want(t, "groups", 30)(groups, err)
		}()
		h.Advance(5 * time.Second)
		h.Leader().Kill()
		h.Agent(1).Reboot()
		h.Agent(2).Isolate()
		<-ended
		h.Agent(2).Rejoin()
		h.Agent(1).Start()
	})
}

// TestTasksGoWhereTheirBlocksAre: with time to wait, no cached partition is read over the network.
func TestTasksGoWhereTheirBlocksAre(t *testing.T) {
	inBothModes(t, frameworktest.Cluster{Agents: 4}, rdd.Config{}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
		ctx := h.T().Context()
		numbers := slowly.On(rdd.Range(c, 40, 8)).Cache()
		for range 5 {
			want(t, "the sum", 40*39/2)(numbers.Reduce(ctx, sum))
		}
		if placed := c.Locality(); placed.HitRate() < 1 || placed.Tasks() != 32 {
			t.Errorf("%d tasks had a place to prefer, and %.0f %% of them ran there", placed.Tasks(), 100*placed.HitRate())
		}
	})
}

// stalls takes a minute for one number, the first time.
var (
	stalled atomic.Bool
	stalls  = rdd.Map("stalls", func(n int) int {
		if n == 7 && !stalled.Swap(true) {
			<-time.NewTimer(time.Minute).C
		}
		return n
	})
)

// TestStragglersRunTwice: a copy of the task that takes a minute ends the job after seconds.
func TestStragglersRunTwice(t *testing.T) {
	config := rdd.Config{Speculate: 2, Wait: time.Second}
	inBothModes(t, frameworktest.Cluster{Agents: 4}, config, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
		stalled.Store(false)
		begun := h.Now()
		want(t, "the sum", 20*19/2)(stalls.On(slowly.On(rdd.Range(c, 20, 10))).Reduce(h.T().Context(), sum))
		if took := h.Now() - begun; took > 30*time.Second || !stalled.Load() {
			t.Errorf("it took %v; stalled: %v", took, stalled.Load())
		}
	})
}

// crawls takes a millisecond for each number; once it takes a minute for each of the partition that begins with 0.
var (
	crawled atomic.Bool
	crawls  = rdd.Partitions("crawls", func(in iter.Seq[int]) iter.Seq[int] {
		return func(yield func(int) bool) {
			pause := time.Millisecond
			for n := range in {
				if n == 0 && !crawled.Swap(true) {
					pause = time.Minute
				}
				<-time.NewTimer(pause).C
				if !yield(n) {
					return
				}
			}
		}
	})
)

// TestFineEndsWhatNobodyWants: a straggler whose copy was quicker gives its cpu back, and so do the tasks of a job that is
// called off.
func TestFineEndsWhatNobodyWants(t *testing.T) {
	config := rdd.Config{Mode: rdd.Fine, Speculate: 2, Wait: time.Second}
	onCluster(t, frameworktest.Cluster{Agents: 4}, config, func(h *frameworktest.Handle, c *rdd.Context, f *frameworktest.Framework) {
		crawled.Store(false)
		numbers := crawls.On(rdd.Range(c, 2000, 10))
		begun := h.Now()
		want(t, "the sum", 2000*1999/2)(numbers.Reduce(h.T().Context(), sum))
		if took := h.Now() - begun; took > 30*time.Second || !crawled.Load() {
			t.Errorf("it took %v; a task crawled: %v", took, crawled.Load())
		}
		h.AwaitFor(2*time.Hour, "the straggler to be killed, which would take 200 minutes", func() bool { return killed(f) == 1 })

		crawled.Store(false)
		ctx, callOff := context.WithCancel(h.T().Context())
		ended := make(chan error)
		go func() {
			_, err := crawls.On(rdd.Range(c, 200, 1)).Reduce(ctx, sum)
			ended <- err
		}()
		h.Await("the task to run", crawled.Load)
		callOff()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a job that is called off ends with %v", err)
		}
		h.AwaitFor(2*time.Hour, "its task to be killed", func() bool { return killed(f) == 2 })
	})
}

// killed counts the tasks of jobs that were killed.
func killed(f *frameworktest.Framework) (n int) {
	for id, state := range f.States() {
		if strings.HasPrefix(string(id), "job-") && state == api.TaskKilled {
			n++
		}
	}
	return n
}

// TestFineGivesBack: after a job executors have memory and no cpu, so that another framework has all the cpus; they stay
// while something is cached, and no longer. The next job begins new ones.
func TestFineGivesBack(t *testing.T) {
	machine := frameworktest.Machine{Resources: api.Scalars(1.1, 1024)}
	config := rdd.Config{Mode: rdd.Fine, Executors: 2}
	onCluster(t, frameworktest.Cluster{Agents: 2, Machine: machine}, config, func(h *frameworktest.Handle, c *rdd.Context, f *frameworktest.Framework) {
		ctx := h.T().Context()
		numbers := slowly.On(rdd.Range(c, 40, 8)).Cache()
		want(t, "the sum", 40*39/2)(numbers.Reduce(ctx, sum))
		h.Await("the tasks to end", func() bool { return f.Count(api.TaskFinished) == 8 })
		h.Advance(time.Minute)
		if living := living(f); !slices.Equal(living, []api.TaskID{"executor-1", "executor-2"}) {
			t.Errorf("%v live while numbers are cached; want the two executors", living)
		}

		others := taskset.New(taskset.Config{})
		for _, id := range []string{"one", "two"} {
			task := api.Task{Resources: api.Scalars(1, 32), Command: &api.Command{Shell: "sleep 60"}}
			if err := others.Add(taskset.Item{ID: id, Task: task}); err != nil {
				t.Fatal(err)
			}
		}
		second := h.Start(framework.Config{Name: "others"}, others)
		second.AwaitCount(2, api.TaskRunning)
		want(t, "the sum, behind others", 40*39/2)(numbers.Reduce(ctx, sum))
		second.ExpectCount(2, api.TaskFinished)

		numbers.Uncache()
		h.Await("the executors to end", func() bool { return len(living(f)) == 0 })
		want(t, "the sum, with new executors", 40*39/2)(numbers.Reduce(ctx, sum))
		if err := second.Teardown(); err != nil {
			t.Error(err)
		}
	})
}

// living are the tasks of Tender that have not ended, in order.
func living(f *frameworktest.Framework) (living []api.TaskID) {
	for id, state := range f.States() {
		if !state.Terminal() {
			living = append(living, id)
		}
	}
	slices.Sort(living)
	return living
}

// TestExecutorsThatDoNotStart fail the jobs with what they said.
func TestExecutorsThatDoNotStart(t *testing.T) {
	for _, mode := range []rdd.Mode{rdd.Coarse, rdd.Fine} {
		t.Run(string(mode), func(t *testing.T) { startExecutorsThatDoNot(t, mode) })
	}
}

func startExecutorsThatDoNot(t *testing.T, mode rdd.Mode) {
	deaf := rdd.Network{Listen: func(string) (net.Listener, error) { return nil, errors.New("no port is free") }}
	cluster := frameworktest.Cluster{Agents: 1, Executors: executors(deaf)}
	frameworktest.Run(t, cluster, func(h *frameworktest.Handle) {
		c, err := rdd.New(rdd.Config{Executors: 1, Mode: mode, Network: newMemory().network()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		scheduler, err := c.Scheduler(&api.Executor{ID: "rdd", Command: api.Command{Argv: []string{"rdd"}}})
		if err != nil {
			t.Fatal(err)
		}
		f := h.Start(framework.Config{Name: "rdd"}, scheduler)
		_, err = rdd.Range(c, 10, 2).Count(h.T().Context())
		if err == nil {
			t.Fatal("it counts without executors")
		}
		if want := "no port is free"; !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
		if err := f.Teardown(); err != nil {
			t.Error(err)
		}
	})
}

// TestFineNeedsACluster, and modes are two.
func TestFineNeedsACluster(t *testing.T) {
	for mode, want := range map[rdd.Mode]string{rdd.Fine: "needs one", "finest": "coarse and fine"} {
		err := rdd.Local(t.Context(), rdd.Config{Mode: mode}, func(context.Context, *rdd.Context) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", mode, err, want)
		}
	}
}
