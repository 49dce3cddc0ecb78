package rdd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// run is one task on an executor.
type run struct {
	ctx     context.Context
	worker  *worker
	order   order
	held    int64 // bytes of shuffles that it holds in memory
	kept    []plan.Block
	counts  map[string]int
	closers []func() error
}

// perform computes the task's block, and then writes it as an output or applies the action to it.
func (r *run) perform() (value []byte, err error) {
	defer caught(&err)
	defer r.close()
	seq := r.compute(r.order.Block)
	if r.order.Shuffle != nil {
		r.writeOutput(seq)
		return nil, nil
	}
	return r.act(seq)
}

// count adds n to a count that the task reports when it is done.
func (r *run) count(what string, n int) {
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	r.counts[what] += n
}

func (r *run) close() {
	for _, closing := range r.closers {
		_ = closing() // they were only read
	}
}

// compute returns the elements of a block: from a cache, or computed from its sources.
func (r *run) compute(block plan.Block) any {
	n := r.order.Nodes[block.Node]
	if seq, closing, found := r.worker.cache.get(r.ctx, block); found {
		r.closers = append(r.closers, closing)
		return seq
	}
	if addresses := r.order.Kept[block]; len(addresses) > 0 {
		return r.readBlock(block, addresses[0])
	}
	seq := r.derive(n, block)
	if !n.Kept {
		return seq
	}
	kind := kindNamed(n.Kind)
	slice := kind.collect(seq)
	check(r.worker.cache.put(block, kind, slice))
	r.kept = append(r.kept, block)
	return kind.seq(r.ctx, slice)
}

// readBlock reads a block out of another executor's cache.
func (r *run) readBlock(block plan.Block, address string) any {
	if address == r.worker.address {
		check(&missing{address, errors.New("this executor has no such block")})
	}
	body, err := r.worker.client.post(r.ctx, blockURL(address, block), nil)
	if err != nil {
		check(&missing{address, err})
	}
	defer body.Close()
	piece, err := r.store(body)
	if err != nil {
		check(&missing{address, err})
	}
	return kindNamed(r.order.Nodes[block.Node].Kind).decode(heeding{r.ctx, piece})
}

// derive computes a block from its sources.
func (r *run) derive(n node, block plan.Block) any {
	switch n.Op {
	case opSlice:
		return r.slice(n, block)
	case opRange:
		return r.numbers(block)
	case opText:
		return r.text(block)
	case opSaved:
		return r.saved(n, block)
	case opStep:
		return named[*step](n.Name).apply(r, r.given(n), r.compute(r.source(n, block)))
	case opUnion:
		return r.compute(r.source(n, block))
	case opSample:
		return kindNamed(n.Kind).sample(r.compute(r.source(n, block)), n.Fraction, mix(n.Seed)+mix(uint64(block.Partition)))
	case opJoined:
		left, right := n.Shuffles[0], n.Shuffles[1]
		return named[*grouper](n.Name).join(r.readShuffle(left, block.Partition), r.readShuffle(right, block.Partition))
	}
	id := n.Shuffles[0]
	if n.Op == opDealt {
		return kindNamed(n.Kind).concat(r.readOutputs(id, block.Partition))
	}
	pairs, sorted := r.pairing(r.order.Shuffles[id].Kind), r.readShuffle(id, block.Partition)
	switch n.Op {
	case opReduced:
		return pairs.reduce(sorted, named[*reducer](n.Name).f)
	case opGrouped:
		return pairs.group(sorted)
	case opValues:
		return pairs.values(sorted)
	}
	check(fmt.Errorf("rdd: this executor can't do %q; is it another program than its driver?", n.Op))
	return nil
}

// given returns a step's parameter. A large parameter is not in the order; the executor asks the driver for it once.
func (r *run) given(n node) []byte {
	if n.Broadcast == "" {
		return n.Given
	}
	given, err := r.worker.broadcast(r.ctx, n.Broadcast)
	check(err)
	return given
}

// source returns the one block from which the block is computed.
func (r *run) source(n node, block plan.Block) plan.Block {
	for i, parent := range n.Parents {
		next := i + 1
		if block.Partition >= parent.First && (next == len(n.Parents) || block.Partition < n.Parents[next].First) {
			return plan.Block{Node: parent.Node, Partition: block.Partition - parent.First}
		}
	}
	check(fmt.Errorf("rdd: partition %d of dataset %d comes from nothing", block.Partition, n.ID))
	return plan.Block{}
}

// act applies the job's action to a partition of its result.
func (r *run) act(seq any) ([]byte, error) {
	kind := kindNamed(r.order.Nodes[r.order.Block.Node].Kind)
	var value bytes.Buffer
	switch a := r.order.Action; a.Op {
	case actCollect:
		err := kind.encode(&value, seq)
		return value.Bytes(), err
	case actTake:
		err := kind.encode(&value, kind.take(seq, a.N))
		return value.Bytes(), err
	case actFold:
		err := kind.encode(&value, named[*reducer](a.Name).fold(seq))
		return value.Bytes(), err
	case actCount:
		return pack(kind.count(seq))
	case actKeys:
		return kind.pairing().keys(seq, uint64(r.order.Block.Partition))
	case actSave:
		return nil, r.writeFile(a.Path, func(file *os.File) error { return kind.lines(file, seq) })
	case actCheckpoint:
		return nil, r.writeFile(a.Path, func(file *os.File) error { return kind.encode(file, seq) })
	default:
		return nil, fmt.Errorf("rdd: this executor can't %q; is it another program than its driver?", a.Op)
	}
}

// writeFile writes the partition's file under a temporary name until it is complete, so that two copies of a task do
// not disturb each other.
func (r *run) writeFile(dir string, write func(*os.File) error) error {
	file, err := os.CreateTemp(dir, ".part")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // after the rename no file has this name
	defer file.Close()
	if err := write(file); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, partName(r.order.Block.Partition)))
}

func partName(partition int) string { return fmt.Sprintf("part-%05d", partition) }

// heeding is a reader that fails when the task is being killed.
type heeding struct {
	ctx  context.Context
	from io.Reader
}

func (h heeding) Read(into []byte) (int, error) {
	if err := h.ctx.Err(); err != nil {
		return 0, err
	}
	return h.from.Read(into)
}

// heedEvery is after how many elements a sequence checks whether the task is being killed.
const heedEvery = 64

// until stops a sequence when the task is being killed.
func until[T any](ctx context.Context, seq iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		n := 0
		for element := range seq {
			if n++; n%heedEvery == 0 {
				check(ctx.Err())
			}
			if !yield(element) {
				return
			}
		}
	}
}
