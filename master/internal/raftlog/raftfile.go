package raftlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"
	"slices"

	"github.com/tenderhq/tender/master/internal/registrycodec"
)

// checkRaftFile checks the structure of Raft's file before the library opens it. The library has checksums only on the
// two heads of the file, and for damaged pages it panics in goroutines of its own, where nobody can recover. Entries
// and values are compared with their own checksums later.
func checkRaftFile(path string, snapshot uint64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	tree, err := openTree(file)
	if err != nil {
		return err
	}
	buckets := map[string]bool{}
	err = tree.walk(tree.root, func(name, value []byte) error {
		buckets[string(name)] = true
		return tree.checkBucket(string(name), value, snapshot)
	})
	if err == nil && (!buckets["logs"] || !buckets["conf"]) {
		err = fmt.Errorf("it is %w: Raft's log is not in it", registrycodec.ErrDamaged)
	}
	return err
}

// guarded turns a panic, or a fault in mapped memory, into an error.
func guarded(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if evidence := recover(); evidence != nil {
			err = fmt.Errorf("it is %w: %v", registrycodec.ErrDamaged, evidence)
		}
	}()
	return do()
}

// pageTree reads a bbolt file. Its first two pages are its heads. A page begins with 16 bytes about itself; then comes
// a list of items of 16 bytes each, then their keys and values.
type pageTree struct {
	file  io.ReaderAt
	size  int64  // of a page, in bytes
	pages uint64 // how many pages the newer head says that there are
	root  uint64
	seen  map[uint64]bool
}

const (
	pageHeadBytes = 16
	itemBytes     = 16
	branchPage    = 1
	leafPage      = 2
	headMagic     = 0xED0CDAED
	headSumAt     = 56
)

// openTree requires that both heads are undamaged, and that the file holds everything that they refer to. The heads are
// written alternately, so one is the state before the last change. Falling back to it could take back a vote or an
// entry that others rely on.
func openTree(file *os.File) (*pageTree, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	tree, newest := &pageTree{file: file, size: int64(os.Getpagesize()), seen: make(map[uint64]bool)}, uint64(0)
	page := make([]byte, pageHeadBytes+headSumAt+8)
	for i := range int64(2) {
		if _, err := file.ReadAt(page, i*tree.size); err != nil {
			return nil, fmt.Errorf("it is %w: it ends within its heads: %w", registrycodec.ErrDamaged, err)
		}
		head := page[pageHeadBytes:]
		sum := fnv.New64a()
		sum.Write(head[:headSumAt])
		if binary.NativeEndian.Uint32(head) != headMagic || binary.NativeEndian.Uint64(head[headSumAt:]) != sum.Sum64() {
			return nil, fmt.Errorf("it is %w: the checksum of its head %d is wrong", registrycodec.ErrDamaged, i)
		}
		tree.size = int64(binary.NativeEndian.Uint32(head[8:]))
		pages := binary.NativeEndian.Uint64(head[40:])
		if int64(pages)*tree.size > info.Size() {
			return nil, fmt.Errorf("it is %w: it has %d bytes and speaks of %d", registrycodec.ErrDamaged, info.Size(), int64(pages)*tree.size)
		}
		if change := binary.NativeEndian.Uint64(head[48:]); change >= newest {
			newest, tree.pages, tree.root = change, pages, binary.NativeEndian.Uint64(head[16:])
		}
	}
	return tree, nil
}

// walk visits the keys and values below a page.
func (t *pageTree) walk(id uint64, visit func(key, value []byte) error) error {
	if id < 2 || id >= t.pages || t.seen[id] {
		return fmt.Errorf("it is %w: page %d is named where it can't be", registrycodec.ErrDamaged, id)
	}
	t.seen[id] = true
	head := make([]byte, pageHeadBytes)
	if _, err := t.file.ReadAt(head, int64(id)*t.size); err != nil {
		return err
	}
	more := uint64(binary.NativeEndian.Uint32(head[12:]))
	if binary.NativeEndian.Uint64(head) != id || id+more >= t.pages {
		return fmt.Errorf("it is %w: page %d says that it is another one", registrycodec.ErrDamaged, id)
	}
	page := make([]byte, int64(more+1)*t.size)
	if _, err := t.file.ReadAt(page, int64(id)*t.size); err != nil {
		return err
	}
	return t.items(fmt.Sprint("page ", id), page, visit)
}

// items visits what a page lists. The data must begin right after the list, because a count that is too small would
// hide the end of the log.
func (t *pageTree) items(what string, page []byte, visit func(key, value []byte) error) error {
	kind, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	if kind != branchPage && kind != leafPage || pageHeadBytes+count*itemBytes > len(page) {
		return fmt.Errorf("it is %w: %s is of kind %d with %d items", registrycodec.ErrDamaged, what, kind, count)
	}
	next := count * itemBytes
	for i := range count {
		item := page[pageHeadBytes+i*itemBytes:]
		var at, keyBytes, valueBytes int
		var child uint64
		if kind == branchPage {
			at, keyBytes, child = number32(item), number32(item[4:]), binary.NativeEndian.Uint64(item[8:])
		} else {
			at, keyBytes, valueBytes = number32(item[4:]), number32(item[8:]), number32(item[12:])
		}
		if at+i*itemBytes != next || at+keyBytes+valueBytes > len(item) {
			return fmt.Errorf("it is %w: item %d of %s is not where it belongs", registrycodec.ErrDamaged, i, what)
		}
		next += keyBytes + valueBytes
		var err error
		if kind == branchPage {
			err = t.walk(child, above(item[at:at+keyBytes], what, visit))
		} else {
			err = visit(item[at:at+keyBytes], item[at+keyBytes:at+keyBytes+valueBytes])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// above checks that the keys below a branch are in order, and that none comes before the key by which the branch names
// its page.
func above(low []byte, what string, visit func(key, value []byte) error) func(key, value []byte) error {
	before := bytes.Clone(low)
	first := true
	return func(key, value []byte) error {
		if order := bytes.Compare(key, before); order < 0 || order == 0 && !first {
			return fmt.Errorf("it is %w: a key below %s is out of order", registrycodec.ErrDamaged, what)
		}
		before, first = bytes.Clone(key), false
		return visit(key, value)
	}
}

func number32(data []byte) int { return int(binary.NativeEndian.Uint32(data)) }

// checkBucket requires that the log has no gap, except for entries that the newest snapshot covers, because a leader
// may have sent the snapshot instead of them. It also requires that there are no values but Raft's. A small bucket is
// stored inline, where a large one names its first page.
func (t *pageTree) checkBucket(name string, value []byte, snapshot uint64) error {
	if len(value) < 16 {
		return fmt.Errorf("it is %w: bucket %q has %d bytes", registrycodec.ErrDamaged, name, len(value))
	}
	before := uint64(0)
	visit := func(key, _ []byte) error {
		index := uint64(0)
		if name == "logs" && len(key) == 8 {
			index = binary.BigEndian.Uint64(key)
		}
		switch {
		case name == "logs" && (index <= before || index > max(before, snapshot)+1):
			return fmt.Errorf("it is %w: behind entry %d comes another than the next", registrycodec.ErrDamaged, max(before, snapshot))
		case name == "logs":
			before = index
		case name != "conf" || !slices.ContainsFunc(stableKeys, func(known []byte) bool { return bytes.Equal(known, key) }):
			return fmt.Errorf("it is %w: %q holds a value of the name %q", registrycodec.ErrDamaged, name, key)
		}
		return nil
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return t.walk(root, visit)
	}
	if len(value) < 16+pageHeadBytes {
		return fmt.Errorf("it is %w: bucket %q has %d bytes", registrycodec.ErrDamaged, name, len(value))
	}
	return t.items(fmt.Sprintf("bucket %q", name), value[16:], visit)
}
