package rdd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// run is one task on an executor.
type run struct {
	ctx     context.Context
	worker  *worker
	order   order
	kept    []plan.Block
	closers []func() error
}

// performTask computes the task's block, and then writes it as an output or returns its elements.
func (r *run) performTask() (value []byte, err error) {
	defer caught(&err)
	defer func() {
		for _, closing := range r.closers {
			_ = closing() // they were only read
		}
	}()
	seq := r.computeBlock(r.order.Chain)
	if r.order.Shuffle != nil {
		r.writeOutput(seq)
		return nil, nil
	}
	var elements bytes.Buffer
	err = kindNamed(r.order.Chain[0].Node.Kind).encode(&elements, seq)
	return elements.Bytes(), err
}

// computeBlock returns the elements of the first block of a chain: from a cache, or computed from the others.
func (r *run) computeBlock(chain []link) any {
	n, block := chain[0].Node, chain[0].Block
	if seq, closing, found := r.worker.cache.get(block); found {
		r.closers = append(r.closers, closing)
		return seq
	}
	kind := kindNamed(n.Kind)
	if address := chain[0].Kept; address != "" {
		return kind.decode(r.fetchPiece(address, wanted{Block: block, Kind: n.Kind}))
	}
	seq := r.deriveBlock(n, block, chain[1:])
	if !n.Kept {
		return seq
	}
	slice := kind.collect(seq)
	check(r.worker.cache.put(block, kind, slice))
	r.kept = append(r.kept, block)
	return kind.seq(slice)
}

// deriveBlock computes a block from the chain behind it.
func (r *run) deriveBlock(n node, block plan.Block, behind []link) any {
	switch n.Op {
	case opSlice:
		return kindNamed(n.Kind).decode(bytes.NewReader(n.Each[0]))
	case opStep:
		return named(n.Name).apply(block.Partition, n.Given, r.computeBlock(behind))
	case opUnion:
		return r.computeBlock(behind)
	}
	pairs, sorted := r.pairingNamed(r.order.Shuffles[n.Shuffles[0]].Kind), r.readShuffle(n.Shuffles[0], block.Partition)
	if n.Op == opReduced {
		return pairs.reduce(sorted, named(n.Name).reduce)
	}
	return pairs.group(sorted)
}

// writeOutput is the last step of a map task.
func (r *run) writeOutput(seq any) {
	w, s := r.worker, r.order.Shuffle
	var reduce any
	if s.Reducer != "" {
		reduce = named(s.Reducer).reduce
	}
	out := r.pairingNamed(s.Kind).write(filepath.Join(w.dir, "output-"+r.order.ID), s.Partitions, reduce, seq)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outputs[wanted{Shuffle: s.ID, From: r.order.Chain[0].Block.Partition}] = out
}

func (r *run) pairingNamed(name string) pairing {
	pairs := kindNamed(name).pairing()
	if pairs == nil {
		check(fmt.Errorf("rdd: %s is no pair, so it can't be shuffled", name))
	}
	return pairs
}

// readShuffle is the first step of a stage after a shuffle: it reads the pieces of all map outputs, in the order of the
// map partitions, and sorts them by key.
func (r *run) readShuffle(id plan.ShuffleID, partition int) any {
	var pieces []io.Reader
	for from, address := range r.order.Outputs[id] {
		pieces = append(pieces, r.readOutput(address, wanted{Shuffle: id, From: from, To: partition}))
	}
	return r.pairingNamed(r.order.Shuffles[id].Kind).merge(pieces)
}

// readOutput opens one piece: a local one directly, that of another executor after it was read completely.
func (r *run) readOutput(address string, of wanted) io.Reader {
	if address != r.worker.address {
		return r.fetchPiece(address, of)
	}
	out, found := r.worker.output(of)
	if !found {
		check(&missing{address, errors.New("this executor has no such output")})
	}
	file, section, err := out.open(of.To)
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

// fetchPiece reads something of another executor.
func (r *run) fetchPiece(address string, of wanted) io.Reader {
	body, err := r.worker.client.post(r.ctx, address, "/piece", of)
	if err != nil {
		check(&missing{address, err})
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		check(&missing{address, err})
	}
	return bytes.NewReader(data)
}
