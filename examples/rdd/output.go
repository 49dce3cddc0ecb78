package rdd

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
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
	combine    any    // func(V, V) V, or nil
	reducer    string // its name
	// memory is how many bytes of pairs are held in memory before they are spilled.
	memory int64
}

// sorter holds pairs until they are written: for each partition all of its pairs or, with combine, one pair for each
// key.
type sorter[K ordered, V any] struct {
	pairs  [][]Pair[K, V]
	sums   map[K]*summed[V] // with combine
	f      func(V, V) V
	held   int64
	sized  int // number of pairs since one was measured
	weight int64
}

// summed is the sum so far of the pairs with one key. A key is looked up once for each pair, and assigned to a
// partition once.
type summed[V any] struct {
	value V
	at    int // its partition
}

// write writes the pairs into one file, sorted by partition and key. When they take more memory than allowed, they are
// spilled into a file of the same form; at the end all spills are merged.
func (pairs[K, V]) write(w outputWriter, seq any) output {
	s := &sorter[K, V]{}
	s.f, _ = w.combine.(func(V, V) V)
	defer func() { // the functions before the shuffle have said whose fault it is, and ours do not panic
		if thrown := recover(); thrown != nil {
			if _, told := thrown.(failure); !told {
				thrown = failure{fmt.Errorf("reducer %q: panic: %v\n%s", w.reducer, thrown, stack())}
			}
			panic(thrown)
		}
	}()
	s.clear(w.partitions)
	var spills []output
	for pair := range seq.(iter.Seq[Pair[K, V]]) {
		if s.add(pair); s.held > w.memory {
			spills = append(spills, s.mergeWith(nil, w.path+".spill"+strconv.Itoa(len(spills))))
			s.clear(w.partitions)
		}
	}
	whole := s.mergeWith(spills, w.path)
	for _, spill := range spills {
		check(os.Remove(spill.path))
	}
	return whole
}

func (s *sorter[K, V]) clear(partitions int) {
	s.held = 0
	s.pairs, s.sums = make([][]Pair[K, V], partitions), make(map[K]*summed[V])
}

// measureEvery is how often the size of a pair is measured: the pairs until the next measurement are assumed to have
// the same size.
const measureEvery = 256

func (s *sorter[K, V]) add(pair Pair[K, V]) {
	if sum := s.sums[pair.Key]; sum != nil {
		sum.value = s.f(sum.value, pair.Value)
		return
	}
	at := int(hash(pair.Key) % uint64(len(s.pairs)))
	if s.f != nil {
		s.sums[pair.Key] = &summed[V]{pair.Value, at}
	} else {
		s.pairs[at] = append(s.pairs[at], pair)
	}
	if s.sized%measureEvery == 0 {
		s.weight = bytesOf(pair)
	}
	s.sized++
	s.held += s.weight
}

// take returns what is held, sorted, by partition.
func (s *sorter[K, V]) take() [][]Pair[K, V] {
	for key, sum := range s.sums { // order: irrelevant because they are sorted
		s.pairs[sum.at] = append(s.pairs[sum.at], Pair[K, V]{key, sum.value})
	}
	for _, pairs := range s.pairs {
		slices.SortStableFunc(pairs, byKey)
	}
	return s.pairs
}

// mergeWith writes the spills, merged with what is held, partition by partition: under a temporary name until all is
// there.
func (s *sorter[K, V]) mergeWith(spills []output, path string) output {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part")
	check(err)
	defer os.Remove(file.Name()) // after the rename there is nothing of that name
	defer file.Close()
	to, out := &counter{to: bufio.NewWriterSize(file, 64<<10)}, output{path: path}
	for partition, held := range s.take() {
		var streams []*stream[K, V]
		for _, spill := range spills {
			file, section, err := spill.open(partition)
			check(err)
			defer file.Close()
			streams = append(streams, &stream[K, V]{next: batches[Pair[K, V]](section)})
		}
		streams = append(streams, &stream[K, V]{batch: held})
		merged := iter.Seq[Pair[K, V]](func(yield func(Pair[K, V]) bool) { mergeStreams(streams, yield) })
		if s.f != nil {
			merged = reduceSorted(merged, s.f)
		}
		writer := &batchWriter[Pair[K, V]]{to: to}
		for pair := range merged {
			check(writer.add(pair))
		}
		check(writer.flush())
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
