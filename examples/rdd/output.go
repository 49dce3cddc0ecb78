package rdd

import (
	"bufio"
	"encoding/gob"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
)

// output is what a map task has written: one file that has the pairs for each partition of the shuffle together, sorted
// by key. Partition p is between ends[p-1] and ends[p].
type output struct {
	path string
	ends []int64
}

// open reads one partition of the output.
func (o output) open(partition int) (*os.File, *io.SectionReader, error) {
	file, err := os.Open(o.path)
	if err != nil {
		return nil, nil, err
	}
	first := int64(0)
	if partition > 0 {
		first = o.ends[partition-1]
	}
	return file, io.NewSectionReader(file, first, o.ends[partition]-first), nil
}

// outputWriter is the map side of a shuffle, whatever the types of its pairs.
type outputWriter struct {
	path       string
	partitions int
	bounds     []byte // packed; nil: by hash
	combine    any    // func(V, V) V, or nil
	// memory is how many bytes of pairs are held in memory before they are spilled.
	memory int64
	spills []output
	output output
}

// sorter holds pairs until they are written: for each partition all of its pairs or, with combine, one pair for each
// key.
type sorter[K ordered, V any] struct {
	pairs  [][]Pair[K, V]
	sums   map[K]*summed[V] // with combine
	f      func(V, V) V
	place  func(K) int
	held   int64
	sized  int // number of pairs since one was measured
	weight int64
}

// write writes the pairs into one file, sorted by partition and key. When they take more memory than allowed, they are
// spilled into a file of the same form; at the end all spills are merged.
func (p pairs[K, V]) write(w *outputWriter, seq any) {
	s := &sorter[K, V]{place: p.partitioner(w.bounds, w.partitions)}
	s.f, _ = w.combine.(func(V, V) V)
	s.clear(w.partitions)
	for pair := range seq.(iter.Seq[Pair[K, V]]) {
		if s.add(pair); s.held > w.memory {
			w.spills = append(w.spills, writeOutput(w.path+".spill"+strconv.Itoa(len(w.spills)), s.take()))
			s.clear(w.partitions)
		}
	}
	if len(w.spills) == 0 {
		w.output = writeOutput(w.path, s.take())
		return
	}
	w.output = mergeSpills(w, s)
	for _, spill := range w.spills {
		check(os.Remove(spill.path))
	}
}

func (s *sorter[K, V]) clear(partitions int) {
	s.held = 0
	s.pairs, s.sums = make([][]Pair[K, V], partitions), make(map[K]*summed[V])
}

// summed is the sum so far of the pairs with one key. A key is looked up once for each pair, and assigned to a
// partition once.
type summed[V any] struct {
	value V
	at    int // its partition
}

// measureEvery is how often the size of a pair is measured: the pairs until the next measurement are assumed to have
// the same size.
const measureEvery = 256

func (s *sorter[K, V]) add(pair Pair[K, V]) {
	if sum := s.sums[pair.Key]; sum != nil {
		sum.value = s.f(sum.value, pair.Value)
		return
	}
	at := s.place(pair.Key)
	if s.f != nil {
		s.sums[pair.Key] = &summed[V]{pair.Value, at}
	} else {
		s.pairs[at] = append(s.pairs[at], pair)
	}
	if s.sized%measureEvery == 0 {
		s.weight = bytesOf(reflect.ValueOf(&pair).Elem()) + 16
	}
	s.sized++
	s.held += s.weight
}

// take removes and returns what is held, sorted, by partition.
func (s *sorter[K, V]) take() [][]Pair[K, V] {
	for key, sum := range s.sums { // order: irrelevant because they are sorted
		s.pairs[sum.at] = append(s.pairs[sum.at], Pair[K, V]{key, sum.value})
	}
	for _, pairs := range s.pairs {
		if s.f != nil {
			slices.SortFunc(pairs, byKey) // each key occurs once
		} else {
			slices.SortStableFunc(pairs, byKey)
		}
	}
	return s.pairs
}

// mergeSpills merges the spills with what is still held, partition by partition.
func mergeSpills[K ordered, V any](w *outputWriter, s *sorter[K, V]) output {
	held := s.take()
	return writePartitions(w.path, w.partitions, func(partition int, encode func([]Pair[K, V])) {
		var streams []*stream[K, V]
		for _, spill := range w.spills {
			file, section, err := spill.open(partition)
			check(err)
			defer file.Close()
			streams = append(streams, &stream[K, V]{next: batches[Pair[K, V]](section)})
		}
		streams = append(streams, &stream[K, V]{batch: held[partition]})
		merged := iter.Seq[Pair[K, V]](func(yield func(Pair[K, V]) bool) { mergeStreams(streams, yield) })
		if s.f != nil {
			merged = reduceSorted(merged, s.f)
		}
		batch := make([]Pair[K, V], 0, batchElements)
		for pair := range merged {
			if batch = append(batch, pair); len(batch) == batchElements {
				encode(batch)
				batch = batch[:0]
			}
		}
		encode(batch)
	})
}

// deal writes an output of elements without keys. It writes a file for each partition, and then appends the files to
// each other.
func deal(w *outputWriter, kind kind, seq any) output {
	var files []*os.File
	var buffers []*bufio.Writer
	var encoders []*gob.Encoder
	for range w.partitions {
		file, err := os.CreateTemp(filepath.Dir(w.path), "dealt")
		check(err)
		defer file.Close()
		check(os.Remove(file.Name())) // it lives as long as it is open
		buffer := bufio.NewWriterSize(file, 16<<10)
		files, buffers, encoders = append(files, file), append(buffers, buffer), append(encoders, gob.NewEncoder(buffer))
	}
	kind.deal(seq, encoders)
	out := output{path: w.path}
	whole, err := os.Create(w.path)
	check(err)
	defer whole.Close()
	end := int64(0)
	for i, file := range files {
		check(buffers[i].Flush())
		_, err := file.Seek(0, io.SeekStart)
		check(err)
		n, err := io.Copy(whole, file)
		check(err)
		end += n
		out.ends = append(out.ends, end)
	}
	check(whole.Close())
	return out
}

func writeOutput[K ordered, V any](path string, pairs [][]Pair[K, V]) output {
	return writePartitions(path, len(pairs), func(partition int, encode func([]Pair[K, V])) {
		for batch := range slices.Chunk(pairs[partition], batchElements) {
			encode(batch)
		}
	})
}

// writePartitions writes an output, one partition after the other, under a temporary name until it is complete.
func writePartitions[K ordered, V any](path string, n int, write func(partition int, encode func([]Pair[K, V]))) output {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part")
	check(err)
	defer os.Remove(file.Name()) // after the rename there is nothing of that name
	defer file.Close()
	to := &counter{to: bufio.NewWriterSize(file, 64<<10)}
	out := output{path: path}
	for partition := range n {
		encoder := gob.NewEncoder(to)
		write(partition, func(batch []Pair[K, V]) {
			if len(batch) > 0 {
				check(encoder.Encode(batch))
			}
		})
		out.ends = append(out.ends, to.bytes)
	}
	check(to.to.Flush())
	check(file.Close())
	check(os.Rename(file.Name(), path))
	return out
}

// counter counts what goes through it.
type counter struct {
	to    *bufio.Writer
	bytes int64
}

func (c *counter) Write(data []byte) (int, error) {
	n, err := c.to.Write(data)
	c.bytes += int64(n)
	return n, err
}
