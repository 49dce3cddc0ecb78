package rdd

import (
	"time"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// op is how an executor computes a partition of a dataset.
type op string

const (
	opSlice   op = "slice"   // elements that the driver has sent
	opRange   op = "range"   // numbers
	opText    op = "text"    // lines of files
	opSaved   op = "saved"   // a checkpoint
	opStep    op = "step"    // a declared step, on the parent
	opUnion   op = "union"   // one of the parents
	opSample  op = "sample"  // some of the parent's elements
	opReduced op = "reduced" // one pair for each key of a shuffle
	opGrouped op = "grouped" // one group for each key of a shuffle
	opValues  op = "values"  // what a shuffle brings, in the order of its keys, without them
	opJoined  op = "joined"  // what a declared function makes of two shuffles
	opDealt   op = "dealt"   // what a shuffle has dealt to the partition, whatever the elements are
)

// node is a dataset as executors are told of it.
type node struct {
	ID       plan.NodeID
	Parents  []plan.Parent
	Shuffles []plan.ShuffleID
	Kept     bool
	Kind     string // of its elements
	Op       op
	Name     string // of a declared function
	Given    []byte // its parameter
	// Broadcast names a parameter that is too large to travel with each task: executors ask for it once.
	Broadcast string
	Fraction  float64
	Seed      uint64
	// Each is what the op needs to know for each partition; an executor is told that of the partitions it computes.
	Each [][]byte
}

// shuffle is a shuffle as executors are told of it.
type shuffle struct {
	ID         plan.ShuffleID
	Kind       string // of what goes through it: pairs, unless it is dealt
	Dealt      bool   // in turn, whatever the elements are
	Partitions int
	Combine    string // the declared reducer, or ""
	// Sorted: by ranges of keys, between the Bounds, which the first action finds out. Else by hash.
	Sorted bool
	Bounds []byte
}

// act is what an executor does with a partition of the result.
type act string

const (
	actCollect    act = "collect"    // send it
	actTake       act = "take"       // send the first elements
	actFold       act = "fold"       // send what a declared reducer makes of it
	actCount      act = "count"      // send the number of elements
	actKeys       act = "keys"       // send a sample of its keys
	actSave       act = "save"       // write it to a file, as lines
	actCheckpoint act = "checkpoint" // write it to a file that can be read again
)

// action is what becomes of a partition of the result.
type action struct {
	Op   act
	Name string // fold: of the declared reducer
	N    int    // take: how many
	Path string // save, checkpoint: the folder
}

// order is one task, with all that the executor must know to run it.
type order struct {
	ID       string // of the attempt, never used twice
	Block    plan.Block
	Shuffle  *shuffle // what its output is for; nil: Action
	Action   action
	Nodes    map[plan.NodeID]node
	Each     map[plan.Block][]byte
	Shuffles map[plan.ShuffleID]shuffle
	Outputs  map[plan.ShuffleID][]string // addresses by map partition
	Kept     map[plan.Block][]string     // addresses of caches
	Drops    []plan.NodeID               // datasets that need not be cached any more
}

// report is how a task has ended.
type report struct {
	ID    string
	Error string // "": well
	// Missing is the address that something could not be read from: not the task's fault, but that executor's.
	Missing string
	Value   []byte
	Kept    []plan.Block   // what is in the cache since
	Counts  map[string]int // by its steps
	Cached  map[plan.NodeID]held
	Took    time.Duration
}
