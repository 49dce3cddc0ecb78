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

// Config says what a context asks of the cluster. The zero value is complete.
type Config struct {
	// Name of the framework. Default "rdd".
	Name string
	// Role whose share of the cluster is used. Default [api.DefaultRole].
	Role api.Role
	// Masters are gRPC addresses. Default: that of a cluster on this machine.
	Masters []string
	// Mode says when executors have cpus. Default [Coarse].
	Mode Mode
	// Executors is how many there are at most, one on an agent. Default 4.
	Executors int
	// Slots is how many tasks an executor runs at once, each with a cpu. Default 1.
	Slots int
	// MemoryMB is what an executor asks for. Default 512. Six tenths of it are for cached blocks, two for what tasks
	// shuffle; beyond that both are spilled to its sandbox.
	MemoryMB float64
	// ShufflePartitions is how many partitions reduceByKey and its like make. Default: two for each slot.
	ShufflePartitions int
	// SplitBytes is how much of text files makes one partition. Default 32 MiB.
	SplitBytes int64
	// Wait is how long tasks wait for the executor that has their cached partition. Default 3 s.
	Wait time.Duration
	// Speculate runs a second copy of tasks that take longer than so many times the median of their stage. 0: never.
	Speculate float64
	// Host is where the driver listens for its executors; theirs are the hostnames of their agents, unless it is on
	// loopback. Default 127.0.0.1, which is for clusters on one machine.
	Host string
	// Network is how driver and executors reach each other. Default: TCP.
	Network Network
	// Progress is drawn there, stage by stage; nil: nowhere.
	Progress io.Writer
	// Stages gets a table of each action when it has ended: what its stages have done, and what is cached; nil: nowhere.
	Stages io.Writer
}

// Mode says when the executors of a context have cpus. The results are the same.
type Mode string

const (
	// Coarse executors have their cpus from the first job to the end of the program, idle or not: a task begins as soon
	// as the one before it has ended.
	Coarse Mode = "coarse"
	// Fine executors have memory alone. Each task of a job is a task of Tender, with a cpu out of an offer, which is given
	// back when it ends: others have it meanwhile, and each task waits for its offer. An executor is begun with its first
	// task, and ended when it has held nothing for a while.
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

// Context is a driver's end of a cluster: the datasets that it has made, the executors that it has, and what runs there.
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
	tasks    map[string]*task // on their way, by attempt
	numbers  int              // of jobs so far
	launcher launcher
	delay    *locality.Delay
	placed   locality.Numbers // of jobs that have ended
	timer    *time.Timer
	tally    tally
	large    map[string][]byte // parameters, by their SHA-256
	failure  error             // why no job can run any more
}

// executors are those that a context has, and has had.
type executors struct {
	places map[plan.Place]*place // those that live
	gone   map[plan.Place]bool   // those that are taken for dead: they may ask no more
	// stillborn counts those that ended before they asked for a task, since one has.
	stillborn int
}

// endpoint is where executors reach their driver, and the word by which they know each other.
type endpoint struct {
	token, address string
	stop           func()
}

// tally is what steps have counted, and of which map tasks: one that had to run again does not count again.
type tally struct {
	sums    map[string]int
	counted map[plan.Task]bool
}

// add takes in what a task has counted.
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

// New makes a context that listens for executors. Close ends it.
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

// Close ends what the context has begun. Jobs that still run fail.
func (c *Context) Close() {
	c.fail(errors.New("rdd: the context is closed"))
	c.stop()
}

// fail ends all jobs, those to come as well.
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

// Locality tells how many tasks ran where their block is, and what they waited.
func (c *Context) Locality() locality.Numbers {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.placed.Plus(c.delay.Numbers(""))
}

// Counts are the sums of what steps have counted; see Counting.
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

// cut has a dataset come from files.
func (c *Context) cut(id plan.NodeID, dir string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[id]
	n.Op, n.Given, n.Parents, n.Shuffles = opSaved, []byte(dir), nil, nil
	c.nodes[id] = n
	c.graph.Cut(id)
}

// unsorted are the shuffles by ranges that a dataset comes through and whose bounds are not known yet, first ones first.
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

// findBounds samples the keys of a shuffle by ranges, so that the ranges have about the same size.
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

// run does an action, once the bounds of all that is sorted on the way are known.
func (c *Context) run(ctx context.Context, id plan.NodeID, a action, partitions []int,
	see func(int, []byte) error) error {
	for _, s := range c.unsorted(id) {
		if err := c.findBounds(ctx, s); err != nil {
			return err
		}
	}
	return c.runJob(ctx, id, a, partitions, see)
}

// taskCPUs is what a slot is to the packing of tasks.
var taskCPUs = api.Scalars(1, 0)
