package rdd

import "github.com/tenderhq/tender/examples/rdd/plan"

// op says how an executor computes a partition of a dataset.
type op string

const (
	opSlice   op = "slice"   // elements that the driver has sent
	opRange   op = "range"   // numbers
	opText    op = "text"    // lines of files
	opNamed   op = "named"   // lines of files, with their files' paths
	opStep    op = "step"    // a declared step, on the parent
	opUnion   op = "union"   // one of the parents
	opReduced op = "reduced" // one pair for each key of a shuffle
	opGrouped op = "grouped" // one group for each key of a shuffle
	opJoined  op = "joined"  // the result of a declared function of two shuffles
)

// node is a dataset as executors are told of it.
type node struct {
	ID       plan.NodeID
	Parents  []plan.Parent
	Shuffles []plan.ShuffleID
	Kept     bool
	Kind     string // kind of its elements
	Op       op
	Name     string // name of a declared function
	Given    []byte // the function's parameter
	// Each is what op needs to know for each partition; an executor gets only the entries of the partitions that it
	// computes.
	Each [][]byte
}

// shuffle is a shuffle as executors are told of it.
type shuffle struct {
	ID         plan.ShuffleID
	Kind       string // kind of its pairs
	Partitions int
	Combine    string // the declared reducer, or ""
}

// act says what an executor does with a partition of the result.
type act string

const (
	actCollect act = "collect" // send it
	actTake    act = "take"    // send the first elements
	actFold    act = "fold"    // send it reduced by a declared reducer
	actCount   act = "count"   // send the number of elements
	actSave    act = "save"    // write it to a file, as lines
)

// action says what is done with each partition of the result.
type action struct {
	Op   act
	Name string // fold: name of the declared reducer
	N    int    // take: how many
	Path string // save: the folder
}

// order is one task, with everything that the executor must know to run it.
type order struct {
	ID       string // ID of the attempt, never used twice
	Block    plan.Block
	Shuffle  *shuffle // the shuffle for which it writes an output; nil: it does Action
	Action   action
	Nodes    map[plan.NodeID]node
	Each     map[plan.Block][]byte
	Shuffles map[plan.ShuffleID]shuffle
	Outputs  map[plan.ShuffleID][]string // addresses by map partition
	Kept     map[plan.Block]string       // addresses of caches
	Drops    []plan.NodeID               // datasets that need no longer be cached
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

// setup is what the driver tells an executor that starts.
type setup struct {
	Driver string // address of the driver
	Token  string
	Host   string // where the executor listens
	// CacheBytes and ShuffleBytes are parts of MemoryBytes. They bound what is held in memory; the rest is spilled to
	// the sandbox.
	MemoryBytes, CacheBytes, ShuffleBytes int64
}
