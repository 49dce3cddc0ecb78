package rdd

import (
	"time"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// op says how an executor computes a partition of a dataset.
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
	opValues  op = "values"  // the values of a shuffle's pairs, in the order of their keys
	opJoined  op = "joined"  // the result of a declared function of two shuffles
	opDealt   op = "dealt"   // what a shuffle has dealt to the partition, of any type
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
	// Broadcast names a parameter that is too large to be sent with each task; executors ask for it once.
	Broadcast string
	Fraction  float64
	Seed      uint64
	// Each is what op needs to know for each partition; an executor gets only the entries of the partitions that it
	// computes.
	Each [][]byte
}

// shuffle is a shuffle as executors are told of it.
type shuffle struct {
	ID         plan.ShuffleID
	Kind       string // kind of its elements: pairs, unless it is dealt
	Dealt      bool   // elements are dealt in turn, whatever their type
	Partitions int
	Combine    string // the declared reducer, or ""
	// Sorted says that keys are assigned to partitions by ranges, between Bounds, which the first action finds.
	// Otherwise they are assigned by hash.
	Sorted bool
	Bounds []byte
}

// act says what an executor does with a partition of the result.
type act string

const (
	actCollect    act = "collect"    // send it
	actTake       act = "take"       // send the first elements
	actFold       act = "fold"       // send it reduced by a declared reducer
	actCount      act = "count"      // send the number of elements
	actKeys       act = "keys"       // send a sample of its keys
	actSave       act = "save"       // write it to a file, as lines
	actCheckpoint act = "checkpoint" // write it to a file that can be read again
)

// action says what is done with each partition of the result.
type action struct {
	Op   act
	Name string // fold: name of the declared reducer
	N    int    // take: how many
	Path string // save, checkpoint: the folder
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
	Kept     map[plan.Block][]string     // addresses of caches
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
	Kept    []plan.Block   // blocks that are in the cache since
	Counts  map[string]int // what its steps have counted
	Cached  map[plan.NodeID]held
	Took    time.Duration
}
