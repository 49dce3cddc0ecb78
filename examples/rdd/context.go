package rdd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/examples/rdd/plan"
	"github.com/tenderhq/tender/framework"
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
	// Executors is how many executors there are at most, one on each agent, each with one cpu from the first job to the
	// end of the program. Default 4.
	Executors int
	// MemoryMB is how much memory an executor asks for. Default 512. Six tenths of it are for cached blocks; what does not
	// fit there is spilled to the executor's sandbox.
	MemoryMB float64
	// ShufflePartitions is how many partitions ReduceByKey and similar operations make. Default: two for each executor.
	ShufflePartitions int
	// SplitBytes is how many bytes of text files make one partition. Default 32 MiB.
	SplitBytes int64
	// Wait is how long a task waits for the executor that has its cached partition. Default 3 s.
	Wait time.Duration
	// Host is where the driver listens for its executors. The executors listen at the hostnames of their agents, or at
	// Host if that is a loopback address. Default 127.0.0.1, for clusters on one machine.
	Host string
	// Network is how driver and executors connect to each other. Default: TCP.
	Network Network
	// Notices is where is told what people should know meanwhile: why executors are waited for, and which were lost.
	// Default: the standard error.
	Notices io.Writer
}

func (c Config) filled() (Config, error) {
	if c.Executors < 0 || c.MemoryMB < 0 || c.ShufflePartitions < 0 || c.SplitBytes < 0 || c.Wait < 0 {
		return c, errors.New("rdd: a Config has a negative number")
	}
	c.Name = cmp.Or(c.Name, "rdd")
	c.Role = cmp.Or(c.Role, api.DefaultRole)
	c.Executors = cmp.Or(c.Executors, 4)
	c.MemoryMB = cmp.Or(c.MemoryMB, 512)
	c.ShufflePartitions = cmp.Or(c.ShufflePartitions, 2*c.Executors)
	c.SplitBytes = cmp.Or(c.SplitBytes, 32<<20)
	c.Wait = cmp.Or(c.Wait, 3*time.Second)
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	c.Network = c.Network.filled()
	if c.Notices == nil {
		c.Notices = os.Stderr
	}
	return c, nil
}

// Context is the driver's side: the datasets that it has made, its executors, and what runs there.
type Context struct {
	config  Config
	token   string // by which driver and executors know each other
	address string // at which executors reach their driver
	stop    func()

	mu       sync.Mutex
	graph    *plan.Graph
	books    *plan.Books
	nodes    map[plan.NodeID]node
	shuffles map[plan.ShuffleID]shuffle
	executors
	jobs    map[int]*job
	tasks   map[string]*task // tasks under way, by attempt
	numbers int              // number of jobs so far
	delay   *locality.Delay
	placed  locality.Numbers // locality of jobs that have ended
	timer   *time.Timer
	failure error // why no job can run any more
}

// executors holds the executors that a context has, and knows those that it had.
type executors struct {
	places map[plan.Place]*place // executors that are alive
	gone   map[plan.Place]bool   // executors that are taken for dead, and may ask nothing more
	client *framework.Client     // nil before the first session, and without a cluster
	// stillborn counts the executors that ended before they asked for a task, since one last did.
	stillborn int
	waited    int // seconds for which jobs have waited without any executor
}

// New makes a context, which listens for executors. Close ends it.
func New(config Config) (*Context, error) {
	known.start()
	config, err := config.filled()
	if err != nil {
		return nil, err
	}
	listener, err := config.Network.Listen(config.Host)
	if err != nil {
		return nil, fmt.Errorf("rdd: the driver can't listen for its executors: %w", err)
	}
	c := &Context{
		config: config, token: rand.Text(), address: listener.Addr().String(),
		graph: plan.NewGraph(), books: plan.NewBooks(), nodes: map[plan.NodeID]node{}, shuffles: map[plan.ShuffleID]shuffle{},
		executors: executors{places: map[plan.Place]*place{}, gone: map[plan.Place]bool{}},
		jobs:      map[int]*job{}, tasks: map[string]*task{},
		delay: locality.New(locality.Config{Node: locality.Wait{Time: config.Wait}}),
	}
	ctx, end := context.WithCancel(context.Background())
	unserve := serve(ctx, listener, guarded(c.token, c.makeRoutes()))
	var watching sync.WaitGroup
	watching.Go(func() { c.watchPlaces(ctx) })
	c.stop = func() {
		end()
		unserve()
		watching.Wait()
	}
	return c, nil
}

// Close ends everything that the context has started. Jobs that still run fail.
func (c *Context) Close() {
	c.failJobs(errors.New("rdd: the context is closed"))
	c.stop()
}

// failJobs ends all jobs, including later ones.
func (c *Context) failJobs(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endAllJobs(err)
}

func (c *Context) endAllJobs(err error) {
	c.failure = cmp.Or(c.failure, err)
	for _, j := range c.jobs {
		c.endJob(j, c.failure)
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

func (c *Context) addNode(n node, from lineage) plan.NodeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.Shuffles = from.shuffles
	n.ID = c.graph.AddNode(plan.Node{Partitions: from.partitions, Parents: from.parents, Shuffles: from.shuffles})
	c.nodes[n.ID] = n
	return n.ID
}

func (c *Context) addShuffle(s shuffle, from plan.NodeID) plan.ShuffleID {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.ID = c.graph.AddShuffle(plan.Shuffle{From: from})
	c.shuffles[s.ID] = s
	return s.ID
}
