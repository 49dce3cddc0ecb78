package plan

import (
	"fmt"
	"maps"
	"slices"
)

// Task computes one partition of a stage. A stage is a chain of datasets for which no data has to be moved. It begins
// at sources, cached blocks and shuffles, and ends with the outputs of a shuffle or, if Shuffle is 0, with the job's
// result.
type Task struct {
	Shuffle   ShuffleID
	Partition int
}

func (t Task) String() string {
	if t.Shuffle == 0 {
		return fmt.Sprintf("result %d", t.Partition)
	}
	return fmt.Sprintf("map %d of shuffle %d", t.Partition, t.Shuffle)
}

// attempt is the attempt of a task that is under way. It is queued while place is "".
type attempt struct {
	number int
	place  Place
}

// Job is one action: the partitions of a dataset that are still wanted, and the attempts that run to get them.
type Job struct {
	graph *Graph
	books *Books
	node  NodeID

	wanted   map[int]bool     // partitions of the result that are still missing
	attempts map[Task]attempt // under way
	failures map[Task]int
	numbers  int // number of attempts so far; numbers are never used twice
}

// FailuresMax is how many failures of a task by its own fault make the job fail, as in Spark.
const FailuresMax = 4

// NewJob makes a job that wants all partitions of a dataset.
func NewJob(graph *Graph, books *Books, node NodeID) *Job {
	j := &Job{
		graph: graph, books: books, node: node,
		wanted: map[int]bool{}, attempts: map[Task]attempt{}, failures: map[Task]int{},
	}
	for partition := range graph.Node(node).Partitions {
		j.wanted[partition] = true
	}
	return j
}

// Done reports whether every wanted partition was computed.
func (j *Job) Done() bool { return len(j.wanted) == 0 }

// Block returns the block that the task computes.
func (j *Job) Block(task Task) Block {
	if task.Shuffle == 0 {
		return Block{j.node, task.Partition}
	}
	return Block{j.graph.Shuffle(task.Shuffle).From, task.Partition}
}

// Ready returns the tasks that can run now and are not under way: everything that they read is there. Nothing more is
// needed to recover from a loss: what was lost is missing, and is computed again from as far back as necessary.
func (j *Job) Ready() []Task {
	ready := j.walkBack().ready
	return slices.DeleteFunc(ready, func(task Task) bool { return j.attempts[task].number > 0 })
}

// walk goes from the wanted partitions back to what is there.
type walk struct {
	job      *Job
	blocks   map[Block]bool     // whether the block can be computed now
	shuffles map[ShuffleID]bool // whether all outputs of the shuffle are there
	ready    []Task             // in order: stages that others need come first
}

func (j *Job) walkBack() *walk {
	w := &walk{job: j, blocks: map[Block]bool{}, shuffles: map[ShuffleID]bool{}}
	for _, partition := range slices.Sorted(maps.Keys(j.wanted)) {
		if w.block(Block{j.node, partition}) {
			w.ready = append(w.ready, Task{Partition: partition})
		}
	}
	return w
}

// block reports whether the block can be computed now, and adds the tasks that are needed first.
func (w *walk) block(block Block) bool {
	if can, known := w.blocks[block]; known {
		return can
	}
	can := true
	if len(w.job.books.Holders(block)) == 0 {
		for _, source := range w.job.graph.Sources(block) {
			can = w.block(source) && can
		}
		for _, shuffle := range w.job.graph.Node(block.Node).Shuffles {
			can = w.shuffle(shuffle) && can
		}
	}
	w.blocks[block] = can
	return can
}

// shuffle reports whether all outputs of the shuffle are there, and adds the tasks for those that are not.
func (w *walk) shuffle(id ShuffleID) bool {
	if whole, known := w.shuffles[id]; known {
		return whole
	}
	whole := true
	from := w.job.graph.Shuffle(id).From
	for partition := range w.job.graph.Node(from).Partitions {
		if w.job.books.Output(id, partition) != "" {
			continue
		}
		whole = false
		if w.block(Block{from, partition}) {
			w.ready = append(w.ready, Task{id, partition})
		}
	}
	w.shuffles[id] = whole
	return whole
}

// Queue begins an attempt of a task and returns its number.
func (j *Job) Queue(task Task) int {
	j.numbers++
	j.attempts[task] = attempt{number: j.numbers}
	return j.numbers
}

// Start notes where the attempt runs.
func (j *Job) Start(task Task, number int, place Place) {
	if j.attempts[task].number == number {
		j.attempts[task] = attempt{number, place}
	}
}

// Abandon ends an attempt by nobody's fault; its task is to be queued again. It reports whether the attempt was under
// way.
func (j *Job) Abandon(task Task, number int) bool {
	if j.attempts[task].number != number {
		return false
	}
	delete(j.attempts, task)
	return true
}

// Finish notes that an attempt has done its task. It reports whether that is news: the result of a place that is taken
// for dead is not.
func (j *Job) Finish(task Task, number int) bool {
	place := j.attempts[task].place
	if !j.Abandon(task, number) {
		return false
	}
	if task.Shuffle != 0 {
		j.books.Write(task.Shuffle, task.Partition, place)
		return true
	}
	news := j.wanted[task.Partition]
	delete(j.wanted, task.Partition)
	return news
}

// Fail ends an attempt that has failed by its task's own fault, and reports whether the task may be tried again.
func (j *Job) Fail(task Task, number int) bool {
	if j.Abandon(task, number) {
		j.failures[task]++
	}
	return j.failures[task] < FailuresMax
}

// Lose ends the attempts at a place that has died.
func (j *Job) Lose(place Place) {
	maps.DeleteFunc(j.attempts, func(_ Task, a attempt) bool { return a.place == place })
}

// Prefers returns the places where a task runs best: those that hold a block of its chain, and first those with the
// block nearest to the result. None: it may run anywhere.
func (j *Job) Prefers(task Task) []Place {
	level := []Block{j.Block(task)}
	for len(level) > 0 {
		var places []Place
		var before []Block
		for _, block := range level {
			places = append(places, j.books.Holders(block)...)
			before = append(before, j.graph.Sources(block)...)
		}
		if len(places) > 0 {
			slices.Sort(places)
			return slices.Compact(places)
		}
		level = before
	}
	return nil
}

// Inputs are what a task may read from other places.
type Inputs struct {
	Chain   []Block               // the blocks that it computes, from its own block backwards
	Kept    map[Block]Place       // blocks of the chain that are in some cache, with the first of the places
	Outputs map[ShuffleID][]Place // for each shuffle that it reads: the places, by map partition
}

// Inputs returns the inputs of a task that is about to run.
func (j *Job) Inputs(task Task) Inputs {
	in := Inputs{Kept: map[Block]Place{}, Outputs: map[ShuffleID][]Place{}}
	seen := map[Block]bool{}
	var visit func(block Block)
	visit = func(block Block) {
		if seen[block] {
			return
		}
		seen[block] = true
		in.Chain = append(in.Chain, block)
		if holders := j.books.Holders(block); len(holders) > 0 {
			in.Kept[block] = holders[0]
			return
		}
		for _, source := range j.graph.Sources(block) {
			visit(source)
		}
		for _, id := range j.graph.Node(block.Node).Shuffles {
			for partition := range j.graph.Node(j.graph.Shuffle(id).From).Partitions {
				in.Outputs[id] = append(in.Outputs[id], j.books.Output(id, partition))
			}
		}
	}
	visit(j.Block(task))
	return in
}
