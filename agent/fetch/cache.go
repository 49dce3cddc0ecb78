package fetch

import (
	"cmp"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/agent/walls/entry"
	"github.com/tenderhq/tender/api"
)

// cacheBytesMax bounds the cache if the Fetcher does not. The least recently used files are removed first.
const cacheBytesMax = 1 << 30

// cache keeps files from the network by their checksum. Sandboxes get copies, never links, because a task may write
// into its file. What is read from the cache is checked again like what comes from the network. A zero cache keeps
// nothing.
type cache struct {
	folder string
	limit  int64
}

func (f Fetcher) cache() cache {
	return cache{f.Cache, cmp.Or(f.CacheBytesMax, cacheBytesMax)}
}

// name returns the path of the file in the cache; "" = it is not to be kept.
func (c cache) name(uri api.URI) string {
	network := strings.HasPrefix(uri.Source, "http://") || strings.HasPrefix(uri.Source, "https://")
	sum, err := hex.DecodeString(uri.SHA256)
	if c.folder == "" || !network || err != nil || len(sum) != 32 {
		return ""
	}
	return filepath.Join(c.folder, hex.EncodeToString(sum))
}

// open opens the kept file; nil if there is none.
func (c cache) open(uri api.URI) io.ReadCloser {
	name := c.name(uri)
	if name == "" {
		return nil
	}
	var file *os.File
	err := entry.Ours(func() (err error) {
		file, err = os.Open(name)
		now := time.Now()
		_ = os.Chtimes(name, now, now) // if this fails, the file is only removed a little too early
		return err
	})
	if err != nil {
		return nil
	}
	return file
}

// drop removes a kept file that turned out to be damaged.
func (c cache) drop(uri api.URI) {
	_ = entry.Ours(func() error { return os.Remove(c.name(uri)) }) // if it can't be removed, it is checked again each time
}

// keep copies a file that was fetched and checked into the cache. Errors are not returned: the file is then fetched
// again next time.
func (c cache) keep(root *os.Root, fetched string, uri api.URI) {
	name := c.name(uri)
	if name == "" {
		return
	}
	source, err := root.Open(fetched)
	if err != nil {
		return
	}
	defer source.Close()
	_ = entry.Ours(func() error { c.copyIn(source, name); return nil })
}

// copyIn copies an open file into the cache.
func (c cache) copyIn(source *os.File, name string) {
	info, err := source.Stat()
	if err != nil || info.Size() > c.limit/4 || os.MkdirAll(c.folder, 0o700) != nil {
		return
	}
	file, err := os.CreateTemp(c.folder, "new-*")
	if err != nil {
		return
	}
	_, err = io.Copy(file, source)
	if cmp.Or(err, file.Close()) != nil || os.Rename(file.Name(), name) != nil {
		_ = os.Remove(file.Name()) // if this fails, it is one day the oldest file and removed as such
		return
	}
	c.shrink()
}

// shrink removes files until the cache is within its limit.
func (c cache) shrink() {
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		return
	}
	var files []os.FileInfo
	size := int64(0)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			files = append(files, info)
			size += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, file := range files {
		if size <= c.limit {
			return
		}
		if os.Remove(filepath.Join(c.folder, file.Name())) == nil {
			size -= file.Size()
		}
	}
}
