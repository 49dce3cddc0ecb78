package raftlog

const (
	// snapshotBytes is after how many bytes of log a snapshot is made, whatever the number of entries.
	snapshotBytes = 256 << 20
	// trailingBytesMax bounds the log that stays behind a snapshot for followers that are slightly behind. A follower
	// that is further behind gets the snapshot.
	trailingBytesMax = 128 << 20
	// trailingMin is how many entries stay whatever their size.
	trailingMin = 64
	// sizesEach entries are counted together, at most sizesMax times.
	sizesEach = 64
	sizesMax  = 256
)

// sizes remembers the sizes of the newest entries of the log.
type sizes struct{ chunks []chunk }

// chunk is a number of consecutive entries, and their bytes.
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

// within returns how many of the newest entries have at most that many bytes together. 0 means all that are known here,
// and perhaps more.
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
