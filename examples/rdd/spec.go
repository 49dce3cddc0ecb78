package rdd

import "github.com/tenderhq/tender/examples/rdd/plan"

// op says how an executor computes a partition of a dataset.
type op string

const (
	opSlice   op = "slice"   // elements that the driver has sent
	opStep    op = "step"    // a declared function, on the parent
	opUnion   op = "union"   // one of the parents
	opReduced op = "reduced" // one pair for each key of a shuffle
	opGrouped op = "grouped" // one group for each key of a shuffle
)

// node is a dataset as executors are told of it.
type node struct {
	ID       plan.NodeID
	Shuffles []plan.ShuffleID
	Kept     bool
	Kind     string // kind of its elements
	Op       op
	Name     string // name of a declared function
	Given    []byte // the function's parameter
	// Each is the elements of each partition of a slice; an executor gets only those of the partition that it computes.
	Each [][]byte
}

// shuffle is a shuffle as executors are told of it.
type shuffle struct {
	ID         plan.ShuffleID
	Kind       string // kind of its pairs
	Partitions int
	Reducer    string // the declared reducer, or ""
}

// order is one task, with everything that the executor must know to run it.
type order struct {
	ID       string   // ID of the attempt, never used twice
	Shuffle  *shuffle // the shuffle for which it writes an output; nil: it sends its elements to the driver
	Chain    []link   // the blocks that it computes, its own first, each from the one behind it
	Shuffles map[plan.ShuffleID]shuffle
	Outputs  map[plan.ShuffleID][]string // addresses by map partition
}

// link is a block that a task computes, unless some cache has it.
type link struct {
	Block plan.Block
	Node  node
	Kept  string // address of the cache; "": none has it
}

// report tells how a task has ended.
type report struct {
	ID    string
	Error string // "": it has ended well
	// Missing is the address of an executor from which something could not be read; then that executor is at fault, not
	// the task.
	Missing string
	Value   []byte
	Kept    []plan.Block // blocks that are in the cache since
}

// question is what an executor asks its driver: this is how my last task has ended; what is the next one?
type question struct {
	Place   plan.Place
	Address string // address at which the executor serves what it holds
	Report  *report
}

// wanted is what an executor asks another one for: a piece of the output that a map task has written for a shuffle or,
// if Shuffle is 0, a cached block.
type wanted struct {
	Block   plan.Block
	Kind    string
	Shuffle plan.ShuffleID
	From    int // number of the map partition
	To      int // number of the piece
}

// setup is what the driver tells an executor that starts.
type setup struct {
	Driver string // address of the driver
	Token  string
	Host   string // where the executor listens
	// CacheBytes is the part of MemoryBytes in which blocks are held; the rest is spilled to the sandbox.
	MemoryBytes, CacheBytes int64
}
