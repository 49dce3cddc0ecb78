// Package files lists folders of sandboxes, page by page. It follows no link and changes nothing.
package files

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/sandbox"
)

const (
	// namesMax bounds what is read of a folder. Further entries are not listed, but can still be asked for by name.
	namesMax = 200_000
	batch    = 4096
)

// List lists the entries of an open folder after the given name: limit entries, or as many as a page may have if limit
// is 0 or larger than that.
func List(folder *os.File, after string, limit int) (sandbox.Page, error) {
	var entries []fs.DirEntry
	for len(entries) < namesMax {
		some, err := folder.ReadDir(batch)
		entries = append(entries, some...)
		if errors.Is(err, io.EOF) || err == nil && len(some) == 0 {
			break
		}
		if err != nil {
			return sandbox.Page{}, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	begin, found := slices.BinarySearchFunc(entries, after, func(e fs.DirEntry, name string) int { return cmp.Compare(e.Name(), name) })
	if found {
		begin++
	}
	if limit <= 0 || limit > api.PageItemsMax {
		limit = api.PageItemsMax
	}
	page := sandbox.Page{Items: []sandbox.Item{}}
	end := min(begin+limit, len(entries))
	for _, entry := range entries[begin:end] {
		page.Items = append(page.Items, itemOf(entry))
	}
	if end < len(entries) && end > begin {
		page.Next = entries[end-1].Name()
	}
	return page, nil
}

func itemOf(entry fs.DirEntry) sandbox.Item {
	item := sandbox.Item{Name: entry.Name(), Kind: "other"}
	if info, err := entry.Info(); err == nil {
		item.Bytes, item.Modified = info.Size(), info.ModTime().UTC()
	}
	switch {
	case entry.IsDir():
		item.Kind = "folder"
	case entry.Type().IsRegular():
		item.Kind = "file"
	}
	return item
}
