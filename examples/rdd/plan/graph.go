// Package plan decides what a small Spark computes next. It knows datasets by number and executors by name; it follows
// what is wanted back to what is there, and says which tasks can run now. What was lost with an executor is missing like
// what was never computed, so the same walk finds what is to be computed again.
//
// It has no clock, network, lock or goroutine, and never looks at data.
package plan

// NodeID numbers a dataset within its graph, from 1.
type NodeID int

// ShuffleID numbers a shuffle within its graph, from 1.
type ShuffleID int

// Place is an executor. Tasks run there, and it holds blocks and outputs until it dies.
type Place string

// Block is one partition of a dataset.
type Block struct {
	Node      NodeID
	Partition int
}

// Node is a dataset: how many partitions it has, and what each of them is computed from.
type Node struct {
	ID         NodeID
	Partitions int
	// Parents are datasets that are read partition by partition, without moving data.
	Parents []Parent
	// Shuffles are read by all partitions: each needs a piece of every map output.
	Shuffles []ShuffleID
}

// Parent is a dataset whose partitions the child takes over. Partition p of the child comes from partition p-First of
// the parent, if there is one. So a union has several parents, each after the partitions of those before.
type Parent struct {
	Node  NodeID
	First int
}

// Shuffle moves the pairs of a dataset into other partitions, by their keys. Its map tasks, one for each partition of
// From, write outputs; to read the shuffle one needs all of them.
type Shuffle struct {
	ID   ShuffleID
	From NodeID
}

// Graph is the lineage of all datasets: how each is computed from others. It only grows, and a parent is added before
// its children.
type Graph struct {
	nodes    map[NodeID]Node
	shuffles map[ShuffleID]Shuffle
}

// NewGraph makes a graph without datasets.
func NewGraph() *Graph {
	return &Graph{nodes: map[NodeID]Node{}, shuffles: map[ShuffleID]Shuffle{}}
}

// AddNode adds a dataset and returns its number.
func (g *Graph) AddNode(node Node) NodeID {
	node.ID = NodeID(len(g.nodes) + 1)
	g.nodes[node.ID] = node
	return node.ID
}

// AddShuffle adds a shuffle and returns its number.
func (g *Graph) AddShuffle(shuffle Shuffle) ShuffleID {
	shuffle.ID = ShuffleID(len(g.shuffles) + 1)
	g.shuffles[shuffle.ID] = shuffle
	return shuffle.ID
}

// Node returns the dataset with this number.
func (g *Graph) Node(id NodeID) Node { return g.nodes[id] }

// Shuffle returns the shuffle with this number.
func (g *Graph) Shuffle(id ShuffleID) Shuffle { return g.shuffles[id] }

// Sources returns the blocks from which a block is computed on the same executor.
func (g *Graph) Sources(block Block) []Block {
	var sources []Block
	for _, parent := range g.nodes[block.Node].Parents {
		if p := block.Partition - parent.First; p >= 0 && p < g.nodes[parent.Node].Partitions {
			sources = append(sources, Block{parent.Node, p})
		}
	}
	return sources
}
