// Package fetch brings files into sandboxes: from a path, by file://, http:// or
// https://, checked by SHA-256, made executable or unpacked where asked. Whatever a name
// or an archive says, nothing is written outside of the sandbox.
package fetch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenderhq/tender/agent/beneath"
	"github.com/tenderhq/tender/api"
)

// ErrDisk says that files take more than Fetcher.DiskMax.
var ErrDisk = errors.New("its files, with what is unpacked of them, take more disk than the task has asked for")

// Fetcher fetches. The zero value has the defaults.
type Fetcher struct {
	// HTTP is the client for http and https. Default: one that gives up when a server is silent for 30 s.
	HTTP *http.Client
	// Unchecked lets files come from the network without a checksum, for frameworks that can't name one. Default: they
	// are refused.
	Unchecked bool
	// Local lets servers redirect the agent to its own machine, and lets URIs name link-local addresses, at which
	// clouds tell machines their secrets.
	Local bool
	// BytesMax bounds one file, and what one archive unpacks to. Default 64 GiB.
	BytesMax int64
	// DiskMax bounds what all files of one sandbox take, with what is unpacked of them. An error that is ErrDisk says that
	// it is not enough. Default: no bound.
	DiskMax int64
	left    *int64 // of DiskMax, during one Fetch
	// EntriesMax bounds the entries of one archive. Default 1,000,000.
	EntriesMax int
	// Cache is a folder where files from the network are kept by their checksum, for the
	// sandboxes that follow. Default: none.
	Cache string
	// CacheBytesMax bounds the cache. A file of more than a quarter of it is not kept. Default 1 GiB.
	CacheBytesMax int64
	// Timeout bounds all files of one sandbox. Default 1 h.
	Timeout time.Duration
}

func (f Fetcher) withDefaults() Fetcher {
	if f.HTTP == nil {
		f.HTTP = newClient(f.Local)
	}
	f.BytesMax = cmp.Or(f.BytesMax, 64<<30)
	f.EntriesMax = cmp.Or(f.EntriesMax, 1_000_000)
	f.Timeout = cmp.Or(f.Timeout, time.Hour)
	return f
}

// Fetch brings all files into the sandbox, one after the other, and stops at the first failure. A file that exists
// already is replaced.
func (f Fetcher) Fetch(ctx context.Context, sandbox *os.Root, uris []api.URI) error {
	f = f.withDefaults()
	if f.DiskMax > 0 {
		left := f.DiskMax
		f.left = &left
	}
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	defer f.HTTP.CloseIdleConnections()
	// All access to files is done with the rights of the sandbox's owner. So nothing is read for a task that the task
	// could not read itself, and what is made belongs to the task.
	return beneath.AsOwner(sandbox, func() error { return f.all(ctx, sandbox, uris) })
}

func (f Fetcher) all(ctx context.Context, sandbox *os.Root, uris []api.URI) error {
	for _, uri := range uris {
		if err := f.fetchFile(ctx, sandbox, uri); err != nil {
			return fmt.Errorf("fetching %s: %w", uri.Redacted(), withoutAddress(err))
		}
	}
	return nil
}

// withoutAddress returns a network error without its address. The address may hold secrets, and so may one to which a
// server has redirected us.
func withoutAddress(err error) error {
	if told := (*url.Error)(nil); errors.As(err, &told) {
		return told.Err
	}
	return err
}

func (f Fetcher) fetchFile(ctx context.Context, root *os.Root, uri api.URI) error {
	name, err := nameOf(uri)
	if err != nil {
		return err
	}
	if err := f.bring(ctx, root, name, uri); err != nil {
		return err
	}
	if uri.Extract {
		return f.extract(ctx, root, name)
	}
	return nil
}

// bring writes the file into the sandbox, from the cache if that has it.
func (f Fetcher) bring(ctx context.Context, root *os.Root, name string, uri api.URI) error {
	cache := f.cache()
	if kept := cache.open(uri); kept != nil {
		err := f.store(root, name, kept, uri)
		_ = kept.Close() // it was only read
		if err == nil {
			return nil
		}
		cache.drop(uri)
	}
	source, err := f.open(ctx, uri)
	if err != nil {
		return err
	}
	defer source.Close()
	if err := f.store(root, name, source, uri); err != nil {
		return err
	}
	cache.keep(root, name, uri)
	return nil
}

// nameOf returns the path of the file in the sandbox.
func nameOf(uri api.URI) (string, error) {
	name := uri.Name
	if name == "" {
		rest := uri.Source
		if parsed, err := url.Parse(rest); err == nil && parsed.Scheme != "" {
			rest = parsed.Path
		}
		name = path.Base(rest)
	}
	if name == "." || name == "/" || !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q is no name inside a sandbox; give the file a name", name)
	}
	return filepath.Clean(name), nil
}

func (f Fetcher) open(ctx context.Context, uri api.URI) (io.ReadCloser, error) {
	parsed, err := url.Parse(uri.Source)
	switch {
	case filepath.IsAbs(uri.Source):
		return openFile(uri.Source)
	case err != nil:
		return nil, err
	case parsed.Scheme == "file":
		if parsed.Host != "" && parsed.Host != "localhost" || !filepath.IsAbs(parsed.Path) {
			return nil, errors.New("a file URI names an absolute path on the agent: file:///path")
		}
		return openFile(parsed.Path)
	case parsed.Scheme == "http" || parsed.Scheme == "https":
		return f.get(ctx, uri)
	}
	return nil, errors.New("not an absolute path, file://, http:// or https://")
}

func openFile(name string) (io.ReadCloser, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // a pipe or a device might never end
		return nil, errors.New("not a regular file")
	}
	return os.Open(name)
}

func (f Fetcher) get(ctx context.Context, uri api.URI) (io.ReadCloser, error) {
	if uri.SHA256 == "" && !f.Unchecked {
		return nil, errors.New("a file from the network needs its sha256")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri.Source, nil)
	if err != nil {
		return nil, err
	}
	response, err := f.HTTP.Do(request)
	if errors.Is(err, io.EOF) {
		return nil, errBroken
	}
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(&answerError{response.StatusCode, response.Status}, response.Body.Close())
	}
	return answerBody{response.Body}, nil
}

// store writes the file beside its place, and moves it there only if it is right.
func (f Fetcher) store(root *os.Root, name string, source io.Reader, uri api.URI) (err error) {
	if f.left != nil {
		before := *f.left
		defer func() {
			if err != nil { // what was written is removed again
				*f.left = before
			}
		}()
	}
	if folder := filepath.Dir(name); folder != "." {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	temporary := name + ".fetching"
	if err := root.RemoveAll(temporary); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if uri.Executable {
		mode = 0o755
	}
	sum := sha256.New()
	if err := f.write(root, temporary, io.TeeReader(source, sum), mode, f.BytesMax); err != nil {
		return errors.Join(err, root.RemoveAll(temporary))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); uri.SHA256 != "" && !strings.EqualFold(got, uri.SHA256) {
		return errors.Join(fmt.Errorf("its sha256 is not %s", uri.SHA256), root.RemoveAll(temporary))
	}
	return root.Rename(temporary, name)
}

// write makes a new file with at most limit bytes.
func (f Fetcher) write(root *os.Root, name string, source io.Reader, mode os.FileMode, limit int64) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	most := limit
	if f.left != nil {
		most = min(most, *f.left)
	}
	n, err := io.Copy(file, io.LimitReader(source, most+1))
	if f.left != nil {
		*f.left -= n
	}
	switch {
	case err == nil && n > limit:
		err = fmt.Errorf("larger than %d bytes", limit)
	case err == nil && n > most:
		err = ErrDisk
	}
	if err == nil {
		err = file.Chmod(mode) // regardless of the umask
	}
	return errors.Join(err, file.Close())
}
