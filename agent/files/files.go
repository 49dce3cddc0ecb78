// Package files lists folders of sandboxes, page by page. It follows no link and changes nothing.
package files

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
)

// Item is one entry of a folder.
type Item struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // file, folder or other
	// Bytes is the size as people see it. For an output whose head was given back to the disk it is all that was ever
	// written.
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
}

// Page is a part of a folder, in the order of names.
type Page struct {
	Items []Item `json:"items"`
	// Next is the page token with which to ask for the next page; "": there is none.
	Next string `json:"next_page_token,omitempty"`
}

const (
	// namesMax bounds what is read of a folder. Further entries are not listed, but can still be asked for by name.
	namesMax = 200_000
	batch    = 4096
)

// List lists the entries of an open folder after the given name: limit entries, or as many as a page may have if limit
// is 0 or larger than that.
func List(folder *os.File, after string, limit int) (Page, error) {
	var entries []fs.DirEntry
	for len(entries) < namesMax {
		some, err := folder.ReadDir(batch)
		entries = append(entries, some...)
		if errors.Is(err, io.EOF) || err == nil && len(some) == 0 {
			break
		}
		if err != nil {
			return Page{}, err
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
	page := Page{Items: []Item{}}
	end := min(begin+limit, len(entries))
	for _, entry := range entries[begin:end] {
		page.Items = append(page.Items, itemOf(entry))
	}
	if end < len(entries) && end > begin {
		page.Next = entries[end-1].Name()
	}
	return page, nil
}

func itemOf(entry fs.DirEntry) Item {
	item := Item{Name: entry.Name(), Kind: "other"}
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
