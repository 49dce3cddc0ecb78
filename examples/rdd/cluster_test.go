package rdd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
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
	t.Helper()
	config.Network = newNetworkInBubble()
	cluster.Executors = map[api.ExecutorID]frameworktest.ExecutorFunc{"rdd": rdd.Execute(config.Network)}
	tell(t, cluster, config, story)
}

// tell runs a program on a cluster in virtual time.
func tell(t *testing.T, cluster frameworktest.Cluster, config rdd.Config,
	story func(h *frameworktest.Handle, c *rdd.Context, f *frameworktest.Framework)) {
	t.Helper()
	frameworktest.Run(t, cluster, func(h *frameworktest.Handle) {
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
	onCluster(t, frameworktest.Cluster{Agents: 4}, rdd.Config{}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
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
	onCluster(t, cluster, rdd.Config{Executors: 3}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
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
	onCluster(t, frameworktest.Cluster{Agents: 4}, rdd.Config{}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
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

// TestExecutorsThatDoNotStart fail the jobs with what they said.
func TestExecutorsThatDoNotStart(t *testing.T) {
	deaf := rdd.Network{Listen: func(string) (net.Listener, error) { return nil, errors.New("no port is free") }}
	cluster := frameworktest.Cluster{Agents: 1, Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"rdd": rdd.Execute(deaf)}}
	frameworktest.Run(t, cluster, func(h *frameworktest.Handle) {
		c, err := rdd.New(rdd.Config{Executors: 1, Network: newMemory().network()})
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

// notices collects what a context tells people.
type notices struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notices) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(text)
}

func (n *notices) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// deadly takes three seconds for one element, in which a story may end its executor.
var (
	begins = make(chan struct{}, 1)
	deadly = rdd.Map("deadly", func(n int) int {
		if n == 7 {
			begins <- struct{}{}
			<-time.NewTimer(3 * time.Second).C
		}
		return n
	})
)

// TestAnExecutorThatEndsByItselfCountsAgainstItsTask: after four of them the job ends, with what was said of the last.
// Before, a task that ended its executor was given to another one for ever.
func TestAnExecutorThatEndsByItselfCountsAgainstItsTask(t *testing.T) {
	var said notices
	onCluster(t, frameworktest.Cluster{Agents: 1}, rdd.Config{Executors: 1, Notices: &said}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
		begins = make(chan struct{}, 1)
		ended := make(chan error)
		go func() {
			_, err := deadly.On(rdd.Range(c, 20, 10)).Collect(h.T().Context())
			ended <- err
		}()
		for range 4 {
			<-begins
			h.Agent(1).KillExecutor(0)
		}
		var err error
		select {
		case err = <-ended:
		case <-begins:
			t.Fatal("four executors have died under the same task, and it is tried again")
		}
		if want := "result 3 has failed 4 times, at last executor-"; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "EXECUTOR_TERMINATED: its executor ended: killed by signal 9") {
			t.Errorf("it ends with %v, want %q and the status", err, want)
		}
		if !strings.Contains(said.String(), "lost an executor, executor-") {
			t.Errorf("nothing is said of the lost executors: %s", &said)
		}
	})
}

// TestMachinesThatDieAreNobodysFault, however many do so under the same task.
func TestMachinesThatDieAreNobodysFault(t *testing.T) {
	onCluster(t, frameworktest.Cluster{Agents: 1}, rdd.Config{Executors: 1}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
		begins = make(chan struct{}, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			want(t, "the number of elements", 20)(deadly.On(rdd.Range(c, 20, 10)).Count(h.T().Context()))
		}()
		for range 6 {
			<-begins
			h.Agent(1).Reboot()
			h.Agent(1).Start()
		}
		<-begins
		<-ended
	})
}

// TestAnExecutorThatIsSilentIsReplaced: its process is stopped (SIGSTOP), or the network between it and the driver is
// cut, and its agent sees nothing of that.
func TestAnExecutorThatIsSilentIsReplaced(t *testing.T) {
	var said notices
	var mute atomic.Bool
	network := newNetworkInBubble()
	executors := network
	executors.Dial = func(ctx context.Context, name, address string) (net.Conn, error) {
		if mute.Load() {
			return nil, errors.New("nothing goes through")
		}
		conn, err := network.Dial(ctx, name, address)
		if err != nil {
			return nil, err
		}
		return &mutable{conn, &mute}, nil
	}
	cluster := frameworktest.Cluster{Agents: 1, Executors: map[api.ExecutorID]frameworktest.ExecutorFunc{"rdd": rdd.Execute(executors)}}
	tell(t, cluster, rdd.Config{Executors: 1, Network: network, Notices: &said}, func(h *frameworktest.Handle, c *rdd.Context, f *frameworktest.Framework) {
		begins = make(chan struct{}, 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			want(t, "the number of elements", 20)(deadly.On(rdd.Range(c, 20, 1)).Count(h.T().Context()))
		}()
		<-begins
		mute.Store(true)
		begun := h.Now()
		h.AwaitFor(time.Hour, "the silent executor to be given up", func() bool { return strings.Contains(said.String(), "is silent for 20 s") })
		if took := h.Now() - begun; took > time.Minute {
			t.Errorf("its silence had an end after %v", took)
		}
		mute.Store(false)
		<-begins
		<-ended
	})
}

// mutable is a connection through which nothing goes while it is mute.
type mutable struct {
	net.Conn
	mute *atomic.Bool
}

func (m *mutable) Write(data []byte) (int, error) {
	if m.mute.Load() {
		return 0, errors.New("nothing goes through")
	}
	return m.Conn.Write(data)
}

// TestWaitingIsExplained: after five seconds without an executor people are told what the masters know.
func TestWaitingIsExplained(t *testing.T) {
	var said notices
	machine := frameworktest.Machine{Resources: api.Scalars(4, 256)}
	onCluster(t, frameworktest.Cluster{Agents: 2, Machine: machine}, rdd.Config{Executors: 2, Notices: &said}, func(h *frameworktest.Handle, c *rdd.Context, _ *frameworktest.Framework) {
		ctx, end := context.WithCancel(h.T().Context())
		ended := make(chan error)
		go func() {
			_, err := rdd.Range(c, 20, 10).Count(ctx)
			ended <- err
		}()
		h.Advance(4 * time.Second)
		if said.String() != "" {
			t.Errorf("after four seconds it says %q", &said)
		}
		h.Advance(4 * time.Second)
		if want := "mem"; !strings.Contains(said.String(), "waiting for executors: ") || !strings.Contains(said.String(), want) {
			t.Errorf("after eight seconds it says %q, want %q", &said, want)
		}
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a job that is called off ends with %v", err)
		}
	})
}
