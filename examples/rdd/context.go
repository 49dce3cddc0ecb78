package rdd

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework/locality"
)

// Config says what a context asks of the cluster. All fields have defaults.
type Config struct {
	// Name is the name of the framework. Default "rdd".
	Name string
	// Role is the role whose share of the cluster is used. Default [api.DefaultRole].
	Role api.Role
	// Masters are gRPC addresses of masters. Default: those of a cluster on this machine.
	Masters []string
	// Mode says when executors have cpus. Default [Coarse].
	Mode Mode
	// Executors is how many executors there are at most, one on each agent. Default 4.
	Executors int
	// Slots is how many tasks an executor runs at a time, each with one cpu. Default 1.
	Slots int
	// MemoryMB is how much memory an executor asks for. Default 512. Six tenths of it are for cached blocks, and two
	// tenths for what tasks shuffle; what does not fit there is spilled to the executor's sandbox.
	MemoryMB float64
	// ShufflePartitions is how many partitions ReduceByKey and similar operations make. Default: two for each slot.
	ShufflePartitions int
	// SplitBytes is how many bytes of text files make one partition. Default 32 MiB.
	SplitBytes int64
	// Wait is how long a task waits for the executor that has its cached partition. Default 3 s.
	Wait time.Duration
	// Speculate runs a second copy of a task that takes longer than this many times the median of its stage. 0: never.
	Speculate float64
	// Host is where the driver listens for its executors. The executors listen at the hostnames of their agents, or at
	// Host if that is a loopback address. Default 127.0.0.1, for clusters on one machine.
	Host string
	// Network is how driver and executors connect to each other. Default: TCP.
	Network Network
	// Progress is where the progress of the stages is drawn; nil: it is not.
	Progress io.Writer
	// Stages is where a table is printed after each action: what its stages have done, and what is cached; nil: none is
	// printed.
	Stages io.Writer
}

// Mode says when the executors of a context have cpus. It does not change the results.
type Mode string

const (
	// Coarse executors have their cpus from the first job to the end of the program, even while they are idle: a task
	// begins as soon as the one before it has ended.
	Coarse Mode = "coarse"
	// Fine executors have only memory. Each task of a job is a task of Tender, with a cpu out of an offer, and gives
	// the cpu back when it ends. So others can use it in between, and each task waits for an offer. An executor is
	// started with its first task, and ended when it has held nothing for a while.
	Fine Mode = "fine"
)

func (c Config) filled() Config {
	c.Mode = cmp.Or(c.Mode, Coarse)
	c.Name = cmp.Or(c.Name, "rdd")
	c.Role = cmp.Or(c.Role, api.DefaultRole)
	c.Executors = cmp.Or(c.Executors, 4)
	c.Slots = cmp.Or(c.Slots, 1)
	c.MemoryMB = cmp.Or(c.MemoryMB, 512)
	c.ShufflePartitions = cmp.Or(c.ShufflePartitions, 2*c.Executors*c.Slots)
	c.SplitBytes = cmp.Or(c.SplitBytes, 32<<20)
	c.Wait = cmp.Or(c.Wait, 3*time.Second)
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	c.Network = c.Network.filled()
	return c
}

// Context is the driver's side: the datasets that it has made, its executors, and what runs there.
type Context struct {
	config Config
	endpoint
	began time.Time

	mu       sync.Mutex
	graph    *plan.Graph
	books    *plan.Books
	nodes    map[plan.NodeID]node
	shuffles map[plan.ShuffleID]shuffle
	executors
	jobs     map[int]*job
	tasks    map[string]*task // tasks under way, by attempt
	numbers  int              // number of jobs so far
	launcher launcher
	delay    *locality.Delay
	placed   locality.Numbers // locality of jobs that have ended
	timer    *time.Timer
	tally    tally
	large    map[string][]byte // parameters, by their SHA-256
	failure  error             // why no job can run any more
}

// executors holds the executors that a context has, and knows those that it had.
type executors struct {
	places map[plan.Place]*place // executors that are alive
	gone   map[plan.Place]bool   // executors that are taken for dead, and may ask nothing more
	// stillborn counts the executors that ended before they asked for a task, since one last did.
	stillborn int
}

// endpoint is the address at which executors reach their driver, and the token by which all of them know each other.
type endpoint struct {
	token, address string
	stop           func()
}

// tally is what steps have counted, and in which map tasks: a task that had to run again does not count again.
type tally struct {
	sums    map[string]int
	counted map[plan.Task]bool
}

// add adds what a task has counted.
func (t *tally) add(task plan.Task, counts map[string]int) {
	if t.counted[task] {
		return
	}
	for what, n := range counts {
		t.sums[what] += n
	}
	if task.Shuffle != 0 {
		t.counted[task] = true
	}
}

// New makes a context, which listens for executors. Close ends it.
func New(config Config) (*Context, error) {
	known.start()
	config = config.filled()
	if config.Mode != Coarse && config.Mode != Fine {
		return nil, fmt.Errorf("rdd: there is no mode %q, but %s and %s", config.Mode, Coarse, Fine)
	}
	listener, err := config.Network.Listen(config.Host)
	if err != nil {
		return nil, fmt.Errorf("rdd: the driver can't listen for its executors: %w", err)
	}
	c := &Context{
		config: config, endpoint: endpoint{token: rand.Text(), address: listener.Addr().String()}, began: time.Now(),
		graph: plan.NewGraph(), books: plan.NewBooks(),
		nodes: map[plan.NodeID]node{}, shuffles: map[plan.ShuffleID]shuffle{},
		tally: tally{map[string]int{}, map[plan.Task]bool{}}, large: map[string][]byte{},
		executors: executors{places: map[plan.Place]*place{}, gone: map[plan.Place]bool{}},
		jobs:      map[int]*job{}, tasks: map[string]*task{},
	}
	waits := locality.Config{Node: locality.Wait{Time: config.Wait}}
	if config.Mode == Fine {
		c.launcher, waits.Allow = newFine(c)
	} else {
		c.launcher = &coarse{c}
	}
	c.delay = locality.New(waits)
	c.stop = serve(context.Background(), listener, guarded(c.token, c.routes()))
	return c, nil
}

// Close ends everything that the context has started. Jobs that still run fail.
func (c *Context) Close() {
	c.fail(errors.New("rdd: the context is closed"))
	c.stop()
}

// fail ends all jobs, including later ones.
func (c *Context) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUp(err)
}

func (c *Context) giveUp(err error) {
	c.failure = cmp.Or(c.failure, err)
	for _, j := range c.jobs {
		c.end(j, c.failure)
	}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Locality tells how many tasks ran where their block is, and how long they waited.
func (c *Context) Locality() locality.Numbers {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.placed.Plus(c.delay.Numbers(""))
}

// Counts returns the sums of what steps have counted; see Counting.
func (c *Context) Counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.tally.sums)
}

func (c *Context) addNode(n node, from lineage) plan.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.Parents, n.Shuffles = from.parents, from.shuffles
	if len(n.Given) > broadcastBytes {
		n.Broadcast = fmt.Sprintf("%x", sha256.Sum256(n.Given))
		c.large[n.Broadcast], n.Given = n.Given, nil
	}
	n.ID = c.graph.AddNode(plan.Node{Partitions: from.partitions, Parents: from.parents, Shuffles: from.shuffles})
	c.nodes[n.ID] = n
	return n.ID
}

func (c *Context) addShuffle(s shuffle, from plan.NodeID) plan.ShuffleID {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ID = c.graph.AddShuffle(plan.Shuffle{From: from, Partitions: s.Partitions})
	c.shuffles[s.ID] = s
	return s.ID
}

func (c *Context) keep(id plan.NodeID, kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id]
	n.Kept = kept
	c.nodes[id] = n
	if !kept {
		c.books.ForgetBlocks(id)
		for _, p := range c.places {
			p.drops = append(p.drops, id)
		}
	}
}

// cut makes a dataset read from files instead of computed.
func (c *Context) cut(id plan.NodeID, dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id]
	n.Op, n.Given, n.Parents, n.Shuffles = opSaved, []byte(dir), nil, nil
	c.nodes[id] = n
	c.graph.Cut(id)
}

// unsorted returns the shuffles by ranges on which the dataset depends and whose bounds are not known yet, the first
// ones first.
func (c *Context) unsorted(id plan.NodeID) []shuffle {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, seen := map[plan.ShuffleID]bool{}, map[plan.NodeID]bool{}
	var visit func(id plan.NodeID)
	visit = func(id plan.NodeID) {
		if seen[id] {
			return
		}
		seen[id] = true
		for _, parent := range c.nodes[id].Parents {
			visit(parent.Node)
		}
		for _, s := range c.nodes[id].Shuffles {
			found[s] = c.shuffles[s].Sorted && c.shuffles[s].Bounds == nil
			visit(c.graph.Shuffle(s).From)
		}
	}
	visit(id)
	maps.DeleteFunc(found, func(_ plan.ShuffleID, unsorted bool) bool { return !unsorted })
	var all []shuffle
	for _, s := range slices.Sorted(maps.Keys(found)) {
		all = append(all, c.shuffles[s])
	}
	return all
}

// findBounds samples the keys of a shuffle by ranges, so that the ranges get about the same size.
func (c *Context) findBounds(ctx context.Context, s shuffle) error {
	c.mu.Lock()
	from := c.graph.Shuffle(s.ID).From
	partitions := c.graph.Node(from).Partitions
	c.mu.Unlock()
	samples, all := make([][]byte, partitions), make([]int, partitions)
	for i := range all {
		all[i] = i
	}
	if err := c.runJob(ctx, from, action{Op: actKeys}, all, func(partition int, value []byte) error {
		samples[partition] = value
		return nil
	}); err != nil {
		return err
	}
	pairs, _ := known.kind(s.Kind)
	bounds, err := pairs.pairing().bounds(samples, s.Partitions)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Bounds = bounds
	c.shuffles[s.ID] = s
	return nil
}

// run runs an action. First it finds the bounds of everything that is sorted on the way.
func (c *Context) run(ctx context.Context, id plan.NodeID, a action, partitions []int,
	see func(int, []byte) error) error {
	for _, s := range c.unsorted(id) {
		if err := c.findBounds(ctx, s); err != nil {
			return err
		}
	}
	return c.runJob(ctx, id, a, partitions, see)
}

// taskCPUs is the size of a task when tasks are packed into slots.
var taskCPUs = api.Scalars(1, 0)
