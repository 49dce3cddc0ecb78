package upkeep

import (
	"math"
	"os"
	"syscall"
)

const (
	// entriesMax and depthMax bound a walk. A folder that exceeds them can't be measured in reasonable time, and counts
	// as larger than any limit.
	entriesMax = 1_000_000
	depthMax   = 64
	// namesRead is how many names of a folder are read at once.
	namesRead = 1024
)

// Measure returns how many bytes of disk a folder takes with everything in it. It counts blocks, so that a hole counts
// nothing, and counts a file with several names once. It stops as soon as the result is more than most, unless most is
// 0. For what can't be measured it returns math.MaxInt64.
func Measure(folder *os.Root, most int64) int64 {
	w := walk{most: most, seen: map[inode]bool{}}
	w.folder(folder, 0)
	return w.bytes
}

type inode struct{ device, number uint64 }

type walk struct {
	most    int64
	bytes   int64
	entries int
	seen    map[inode]bool // files with several names
}

// over says that the rest need not be counted.
func (w *walk) over() bool { return w.most > 0 && w.bytes > w.most || w.bytes == math.MaxInt64 }

func (w *walk) folder(root *os.Root, depth int) {
	folder, err := root.Open(".")
	if err != nil {
		return // it was removed meanwhile
	}
	defer folder.Close()
	for !w.over() {
		names, err := folder.Readdirnames(namesRead)
		for _, name := range names {
			if w.over() {
				return
			}
			w.entry(root, name, depth)
		}
		if err != nil || len(names) < namesRead { // that was the end
			return
		}
	}
}

func (w *walk) entry(root *os.Root, name string, depth int) {
	info, err := root.Lstat(name)
	if err != nil {
		return // it was removed meanwhile
	}
	if w.entries++; w.entries > entriesMax {
		w.bytes = math.MaxInt64
		return
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		if !info.IsDir() && stat.Nlink > 1 {
			id := inode{uint64(stat.Dev), stat.Ino} //nolint:unconvert // it is an int32 on darwin
			if w.seen[id] {
				return
			}
			w.seen[id] = true
		}
		const blockBytes = 512 // the unit of st_blocks on every system
		w.bytes += stat.Blocks * blockBytes
	}
	if !info.IsDir() {
		return
	}
	if depth == depthMax {
		w.bytes = math.MaxInt64
		return
	}
	below, err := root.OpenRoot(name)
	if err != nil {
		return // it was removed meanwhile, or something else has its name
	}
	defer below.Close()
	w.folder(below, depth+1)
}
