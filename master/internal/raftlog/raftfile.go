package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// checkRaftFile looks at the structure of Raft's file before anybody uses it. The file has
// checksums on its two heads alone; the rest is held against what its writer always writes,
// and entries and values against their own sums later. A file of damaged pages can make its
// library panic, or touch memory behind the file's end: that is damage like any other.
func checkRaftFile(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := checkHeads(file); err != nil {
		return err
	}
	return guarded(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true, Timeout: time.Second})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(func(tx *bbolt.Tx) error {
			if err := checkPages(tx, file, db.Info().PageSize); err != nil {
				return err
			}
			return checkKeys(tx)
		})
	})
}

// guarded makes an error of a panic and of a fault in mapped memory.
func guarded(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if evidence := recover(); evidence != nil {
			err = fmt.Errorf("it is damaged: %v", evidence)
		}
	}()
	return do()
}

// The heads are the first two pages: 16 bytes of page, then the head.
const (
	pageHeadBytes = 16
	headMagic     = 0xED0CDAED
	headSumAt     = 56
)

// checkHeads wants both heads whole, and a file that holds all that they speak of. Written in
// turns, one is what was true a change ago: falling back on it would take back a vote or an
// entry that others rely on.
func checkHeads(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	page := make([]byte, pageHeadBytes+headSumAt+8)
	size := int64(os.Getpagesize())
	for i := range 2 {
		if _, err := file.ReadAt(page, int64(i)*size); err != nil {
			return fmt.Errorf("it is damaged: it ends within its heads: %w", err)
		}
		head := page[pageHeadBytes:]
		sum := fnv.New64a()
		sum.Write(head[:headSumAt])
		if binary.NativeEndian.Uint32(head) != headMagic || binary.NativeEndian.Uint64(head[headSumAt:]) != sum.Sum64() {
			return fmt.Errorf("it is damaged: the checksum of its head %d is wrong", i)
		}
		if i == 0 {
			size = int64(binary.NativeEndian.Uint32(head[8:]))
		}
		if pages := int64(binary.NativeEndian.Uint64(head[40:])); pages*size > info.Size() {
			return fmt.Errorf("it is damaged: it has %d bytes and speaks of %d", info.Size(), pages*size)
		}
	}
	return nil
}

// checkPages holds the count of each page in use against where its data begins, right behind
// its list: a count that is too small would hide the end of the log.
func checkPages(tx *bbolt.Tx, file io.ReaderAt, size int) error {
	for id := 2; ; {
		page, err := tx.Page(id)
		if err != nil || page == nil {
			return err
		}
		element, at := 0, 0
		switch page.Type {
		case "leaf":
			element, at = 16, 4
		case "branch":
			element, at = 16, 0
		}
		if element > 0 && page.Count > 0 {
			var pos [4]byte
			if _, err := file.ReadAt(pos[:], int64(id)*int64(size)+pageHeadBytes+int64(at)); err != nil {
				return err
			}
			if int(binary.NativeEndian.Uint32(pos[:])) != page.Count*element {
				return fmt.Errorf("it is damaged: page %d says that it holds %d items", id, page.Count)
			}
		}
		id++
		if page.Type == "leaf" || page.Type == "branch" {
			id += page.OverflowCount
		}
	}
}

// checkKeys wants the two buckets of Raft, and no keys in them but Raft's.
func checkKeys(tx *bbolt.Tx) error {
	logs, values := tx.Bucket([]byte("logs")), tx.Bucket([]byte("conf"))
	if logs == nil || values == nil {
		return errors.New("it is damaged: Raft's log is not in it")
	}
	before := uint64(0)
	return errors.Join(
		logs.ForEach(func(key, _ []byte) error {
			if len(key) != 8 || before != 0 && binary.BigEndian.Uint64(key) != before+1 {
				return fmt.Errorf("it is damaged: behind entry %d comes another than the next", before)
			}
			before = binary.BigEndian.Uint64(key)
			return nil
		}),
		values.ForEach(func(key, _ []byte) error {
			if !slices.ContainsFunc(stableKeys, func(known []byte) bool { return string(known) == string(key) }) {
				return fmt.Errorf("it is damaged: it holds a value of the name %q", key)
			}
			return nil
		}),
	)
}
