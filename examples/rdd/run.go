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
	closers []func() error
}

// performTask computes the task's block, and then writes it as an output or applies the action to it.
func (r *run) performTask() (value []byte, err error) {
	defer caught(&err)
	defer func() {
		for _, closing := range r.closers {
			_ = closing() // they were only read
		}
	}()
	seq := r.computeBlock(r.order.Block)
	if r.order.Shuffle != nil {
		r.writeOutput(seq)
		return nil, nil
	}
	return r.applyAction(seq)
}

// computeBlock returns the elements of a block: from a cache, or computed from its sources.
func (r *run) computeBlock(block plan.Block) any {
	n := r.order.Nodes[block.Node]
	if seq, closing, found := r.worker.cache.get(r.ctx, block); found {
		r.closers = append(r.closers, closing)
		return seq
	}
	kind := kindNamed(n.Kind)
	if address := r.order.Kept[block]; address != "" {
		return kind.decode(r.fetchPiece(address, blockURL(address, block, n.Kind)))
	}
	seq := r.deriveBlock(n, block)
	if !n.Kept {
		return seq
	}
	slice := kind.collect(seq)
	check(r.worker.cache.put(block, kind, slice))
	r.kept = append(r.kept, block)
	return kind.seq(r.ctx, slice)
}

// deriveBlock computes a block from its sources.
func (r *run) deriveBlock(n node, block plan.Block) any {
	switch n.Op {
	case opSlice:
		return kindNamed(n.Kind).decode(bytes.NewReader(r.order.Each[block]))
	case opRange:
		return r.rangeOf(block)
	case opText:
		return linesOf(r, block, func(_, line string) string { return line })
	case opNamed:
		return linesOf(r, block, func(path, line string) Pair[string, string] { return Pair[string, string]{path, line} })
	case opStep:
		return named[*step](n.Name).apply(block.Partition, n.Given, r.computeBlock(r.sourceOf(n, block)))
	case opUnion:
		return r.computeBlock(r.sourceOf(n, block))
	case opJoined:
		left, right := r.readShuffle(n.Shuffles[0], block.Partition), r.readShuffle(n.Shuffles[1], block.Partition)
		return named[*grouper](n.Name).join(block.Partition, left, right)
	}
	pairs, sorted := r.pairingNamed(r.order.Shuffles[n.Shuffles[0]].Kind), r.readShuffle(n.Shuffles[0], block.Partition)
	if n.Op == opReduced {
		return pairs.reduce(sorted, n.Name, block.Partition)
	}
	return pairs.group(sorted)
}

// sourceOf returns the one block from which the block is computed.
func (r *run) sourceOf(n node, block plan.Block) plan.Block {
	for i, parent := range n.Parents {
		next := i + 1
		if block.Partition >= parent.First && (next == len(n.Parents) || block.Partition < n.Parents[next].First) {
			return plan.Block{Node: parent.Node, Partition: block.Partition - parent.First}
		}
	}
	check(fmt.Errorf("rdd: partition %d of dataset %d comes from nothing", block.Partition, n.ID))
	return plan.Block{}
}

// applyAction applies the job's action to a partition of its result.
func (r *run) applyAction(seq any) ([]byte, error) {
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
		err := kind.encode(&value, named[*reducer](a.Name).fold(r.order.Block.Partition, seq))
		return value.Bytes(), err
	case actCount:
		return pack(kind.count(seq)), nil
	default: // actSave
		return nil, r.saveLines(a.Path, kind, seq)
	}
}

// saveLines writes the partition's file under a temporary name until it is complete, so that a task that is tried again does
// not meet what is left of the first.
func (r *run) saveLines(dir string, kind kind, seq any) error {
	file, err := os.CreateTemp(dir, ".part")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // after the rename no file has this name
	defer file.Close()
	if err := kind.lines(file, seq); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(dir, fmt.Sprintf("part-%05d", r.order.Block.Partition)))
}

// writeOutput is the last step of a map task.
func (r *run) writeOutput(seq any) {
	w, s := r.worker, r.order.Shuffle
	writer := outputWriter{
		path: filepath.Join(w.dir, "output-"+r.order.ID), partitions: s.Partitions, memory: w.memory, reducer: s.Combine,
	}
	if s.Combine != "" {
		writer.combine = named[*reducer](s.Combine).f
	}
	out := r.pairingNamed(s.Kind).write(writer, seq)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outputs[outputKey{s.ID, r.order.Block.Partition}] = out
}

func (r *run) pairingNamed(name string) pairing {
	pairs := kindNamed(name).pairing()
	if pairs == nil {
		check(fmt.Errorf("rdd: %s is no pair, so it can't be shuffled", name))
	}
	return pairs
}

// readShuffle is the first step of a stage after a shuffle: it reads the pieces of all map outputs, in the order of the
// map partitions, and merges them by key.
func (r *run) readShuffle(id plan.ShuffleID, partition int) any {
	var pieces []io.Reader
	for from, address := range r.order.Outputs[id] {
		pieces = append(pieces, heeding{r.ctx, r.readOutput(id, address, from, partition)})
	}
	return r.pairingNamed(r.order.Shuffles[id].Kind).merge(pieces)
}

// readOutput opens one piece: a local one directly, that of another executor after it was read completely.
func (r *run) readOutput(id plan.ShuffleID, address string, from, to int) io.Reader {
	if address != r.worker.address {
		return r.fetchPiece(address, outputURL(address, id, from, to))
	}
	out, found := r.worker.output(id, from)
	if !found {
		check(&missing{address, errors.New("this executor has no such output")})
	}
	file, section, err := out.open(to)
	check(err)
	r.closers = append(r.closers, file.Close)
	return section
}

// missing is the error of something that can't be read from another executor.
type missing struct {
	address string
	err     error
}

func (m *missing) Error() string { return fmt.Sprintf("reading from %s: %v", m.address, m.err) }
func (m *missing) Unwrap() error { return m.err }

// fetchPiece reads something of another executor: into memory while it fits into the task's share, otherwise into a file.
func (r *run) fetchPiece(address, url string) io.Reader {
	body, err := r.worker.client.post(r.ctx, url, nil)
	if err != nil {
		check(&missing{address, err})
	}
	defer body.Close()
	room := max(0, r.worker.memory-r.held)
	data, err := io.ReadAll(io.LimitReader(body, room))
	if err != nil {
		check(&missing{address, err})
	}
	if int64(len(data)) < room {
		r.held += int64(len(data))
		return heeding{r.ctx, bytes.NewReader(data)}
	}
	file, err := os.CreateTemp(r.worker.dir, "fetched")
	check(err)
	r.closers = append(r.closers, file.Close)
	check(os.Remove(file.Name())) // the file exists as long as it is open
	_, err = file.Write(data)
	check(err)
	if _, err := io.Copy(file, body); err != nil {
		check(&missing{address, err})
	}
	_, err = file.Seek(0, io.SeekStart)
	check(err)
	return heeding{r.ctx, file}
}

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
