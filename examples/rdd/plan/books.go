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
}

// NewBooks makes empty books.
func NewBooks() *Books {
	return &Books{kept: map[Block]map[Place]bool{}, outputs: map[ShuffleID]map[int]Place{}}
}

// Keep notes that a place has a block in its cache.
func (b *Books) Keep(block Block, place Place) {
	if b.kept[block] == nil {
		b.kept[block] = map[Place]bool{}
	}
	b.kept[block][place] = true
}

// Write notes that a place has the output of a map task.
func (b *Books) Write(shuffle ShuffleID, partition int, place Place) {
	if b.outputs[shuffle] == nil {
		b.outputs[shuffle] = map[int]Place{}
	}
	b.outputs[shuffle][partition] = place
}

// Forget forgets everything that a place held, because it has died or can't be read from.
func (b *Books) Forget(place Place) {
	for block, places := range b.kept { // order: irrelevant because each entry is changed alone
		delete(places, place)
		if len(places) == 0 {
			delete(b.kept, block)
		}
	}
	for _, outputs := range b.outputs { // order: irrelevant because each entry is changed alone
		maps.DeleteFunc(outputs, func(_ int, at Place) bool { return at == place })
	}
}

// Holders returns the places that have the block in their cache, in order.
func (b *Books) Holders(block Block) []Place { return slices.Sorted(maps.Keys(b.kept[block])) }

// Output returns where the output of a map task is; "" is nowhere.
func (b *Books) Output(shuffle ShuffleID, partition int) Place { return b.outputs[shuffle][partition] }
