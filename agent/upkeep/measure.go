package upkeep

import (
	"io"
	"math"
	"os"
	"syscall"
)

const (
	// entriesMax and depthMax bound a walk. A folder that is beyond them can't be measured in a time that an agent has,
	// and counts as larger than any bound.
	entriesMax = 1_000_000
	depthMax   = 64
	// namesRead are read of a folder at once.
	namesRead = 1024
)

// Measure counts the bytes of disk that a folder takes with all in it: blocks, so that a hole counts nothing, and a file
// of several names once. It stops as soon as there is more than most, unless that is 0. What can't be measured is
// math.MaxInt64.
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
	seen    map[inode]bool // files of several names
}

// over says that the rest need not be counted.
func (w *walk) over() bool { return w.most > 0 && w.bytes > w.most || w.bytes == math.MaxInt64 }

func (w *walk) folder(root *os.Root, depth int) {
	folder, err := root.Open(".")
	if err != nil {
		return // removed meanwhile
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
		if err == io.EOF || err != nil || len(names) == 0 {
			return
		}
	}
}

func (w *walk) entry(root *os.Root, name string, depth int) {
	info, err := root.Lstat(name)
	if err != nil {
		return // removed meanwhile
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
		const blockBytes = 512 // of st_blocks, on every system
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
		return // removed meanwhile, or something else has its name
	}
	defer below.Close()
	w.folder(below, depth+1)
}
