package plan

import (
	"maps"
	"slices"
)

// Books record what is where: which executors hold which blocks and which map outputs. All jobs of a context share
// them, so one job finds what another has computed.
//
// Holds: every place in them is alive, as far as is known.
type Books struct {
	kept    map[Block]map[Place]bool
	outputs map[ShuffleID]map[int]Place // by map partition
	ever    map[Block]bool              // blocks that some place has had
	written map[Task]bool               // map tasks whose output some place has had
	again   map[NodeID]int              // number of blocks that were lost everywhere and then kept again
}

// NewBooks makes empty books.
func NewBooks() *Books {
	return &Books{kept: map[Block]map[Place]bool{}, outputs: map[ShuffleID]map[int]Place{},
		ever: map[Block]bool{}, written: map[Task]bool{}, again: map[NodeID]int{}}
}

// Keep notes that a place has a block in its cache.
func (b *Books) Keep(block Block, place Place) {
	if b.kept[block] == nil {
		b.kept[block] = map[Place]bool{}
		if b.ever[block] {
			b.again[block.Node]++
		}
		b.ever[block] = true
	}
	b.kept[block][place] = true
}

// Write notes that a place has the output of a map task. If there are two copies, the later one counts; they are equal.
func (b *Books) Write(shuffle ShuffleID, partition int, place Place) {
	if b.outputs[shuffle] == nil {
		b.outputs[shuffle] = map[int]Place{}
	}
	b.outputs[shuffle][partition] = place
	b.written[Task{shuffle, partition}] = true
}

// Forget forgets everything that a place held, because it has died or can't be read from.
func (b *Books) Forget(place Place) {
	// order: irrelevant because each entry is changed alone
	for block, places := range b.kept {
		delete(places, place)
		if len(places) == 0 {
			delete(b.kept, block)
		}
	}
	// order: irrelevant because each entry is changed alone
	for _, outputs := range b.outputs {
		maps.DeleteFunc(outputs, func(_ int, at Place) bool { return at == place })
	}
}

// ForgetBlocks forgets the blocks of a dataset, which is no longer to be cached.
func (b *Books) ForgetBlocks(node NodeID) {
	maps.DeleteFunc(b.kept, func(block Block, _ map[Place]bool) bool { return block.Node == node })
	maps.DeleteFunc(b.ever, func(block Block, _ bool) bool { return block.Node == node })
}

// Again returns how many blocks of a dataset were lost, computed again and kept again.
func (b *Books) Again(node NodeID) int { return b.again[node] }

// Lost reports whether the output of a map task existed and no longer does.
func (b *Books) Lost(task Task) bool {
	return b.written[task] && b.outputs[task.Shuffle][task.Partition] == ""
}

// Holders returns the places that have the block in their cache, in order.
func (b *Books) Holders(block Block) []Place { return slices.Sorted(maps.Keys(b.kept[block])) }

// Holds reports whether a place has a block or an output.
func (b *Books) Holds(place Place) bool {
	for _, places := range b.kept { // order: irrelevant because any one is enough
		if places[place] {
			return true
		}
	}
	for _, outputs := range b.outputs { // order: irrelevant because any one is enough
		for _, at := range outputs { // order: likewise
			if at == place {
				return true
			}
		}
	}
	return false
}

// Output returns where the output of a map task is; "" is nowhere.
func (b *Books) Output(shuffle ShuffleID, partition int) Place { return b.outputs[shuffle][partition] }

// Cached returns how many blocks of a dataset some place holds.
func (b *Books) Cached(node NodeID) (blocks int) {
	// order: irrelevant because they are counted
	for block := range b.kept {
		if block.Node == node {
			blocks++
		}
	}
	return blocks
}
