package raftlog

const (
	// snapshotBytes of log make a snapshot due, whatever the number of entries.
	snapshotBytes = 256 << 20
	// trailingBytesMax of log stay behind a snapshot for followers that are a little
	// late; who is later gets the snapshot.
	trailingBytesMax = 128 << 20
	// trailingMin entries stay whatever their size.
	trailingMin = 64
	// sizesEach entries are counted together, at most sizesMax times.
	sizesEach = 64
	sizesMax  = 256
)

// sizes remembers how large the newest entries of the log are.
type sizes struct{ chunks []chunk }

// chunk is some entries that follow each other.
type chunk struct{ entries, bytes uint64 }

func (s *sizes) add(bytes uint64) {
	n := len(s.chunks)
	if n == 0 || s.chunks[n-1].entries == sizesEach {
		if n == sizesMax {
			s.chunks = append(s.chunks[:0], s.chunks[1:]...)
		}
		s.chunks = append(s.chunks, chunk{})
		n = len(s.chunks)
	}
	s.chunks[n-1].entries++
	s.chunks[n-1].bytes += bytes
}

// within returns how many of the newest entries have no more than so many bytes; 0:
// all that we know of, and perhaps more.
func (s *sizes) within(bytes uint64) uint64 {
	sum, entries := uint64(0), uint64(0)
	for i := len(s.chunks) - 1; i >= 0; i-- {
		if sum += s.chunks[i].bytes; sum > bytes {
			return max(entries, trailingMin)
		}
		entries += s.chunks[i].entries
	}
	return 0
}
