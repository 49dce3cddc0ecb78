// Package sandbox reads files of tasks from their agents, also after a task's end, for as long as the agent keeps its
// folder. It knows nothing of masters, and writes only to its caller.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

// File names a file of a task, or of the task's executor.
type File struct {
	Task     api.TaskRef
	Executor bool
	Path     string // the path below the folder
	// Address is where the task's agent listens for HTTP.
	Address string
	// Dial opens the connection. Default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Ticket is the ticket that the agent is shown. Default: none, as in a cluster without certificates.
	Ticket string
	// Most is how many bytes the file may have. 0: there is no limit.
	Most int64
	// span is the range of the file that is asked for, as HTTP writes it. "": all of it.
	span string
}

// ErrNoAddress says that nothing of a task can be read or entered. Asking again does not help: an agent tells its address
// when it registers, and masters remember it while the agent is away.
var ErrNoAddress = errors.New("its agent has told no address for HTTP; it was started with --http-port 0")

const (
	op = "task.file"
	// whyBytesMax is how many bytes of an agent's refusal are shown.
	whyBytesMax = 400
	// namedMax is how many of a folder's files are named in an error.
	namedMax = 20
	// folderBytesMax is how many bytes of a folder's list are read.
	folderBytesMax = 1 << 20
)

// Copy writes the file. The kind of its error is NotFound if the agent does not have the task or the file (any more),
// Limit for a file of more than Most bytes, Invalid for a folder, Denied if the ticket does not allow it, and
// Unavailable if the agent does not answer completely.
func (f File) Copy(ctx context.Context, to io.Writer) error {
	if f.Address == "" {
		return f.noAddress()
	}
	response, err := f.ask(ctx, "files", f.name(), url.Values{})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or is no longer wanted
	if response.Header.Get("Content-Type") == "application/json" {
		return api.E(op, api.Invalid, f.subject(), fmt.Errorf("this is a folder; it has %s", contents(response.Body)))
	}
	return f.copy(to, response.Body)
}

// Part returns at most that many bytes of the file from the offset on, and how many bytes the file has. With a negative
// offset, or most 0, it only tells that. The kinds of its errors are those of Copy; a range of an output that is no longer
// kept is Invalid.
func (f File) Part(ctx context.Context, offset, most int64) (data []byte, size int64, err error) {
	if f.Address == "" {
		return nil, 0, f.noAddress()
	}
	if offset < 0 || most <= 0 {
		f.span, most = "bytes=-1", 0
	} else {
		offset = min(offset, math.MaxInt64-most)
		f.span = fmt.Sprintf("bytes=%d-%d", offset, offset+most-1)
	}
	response, err := f.ask(ctx, "files", f.name(), url.Values{})
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }() // what is needed was read
	_, whole, ranged := strings.Cut(response.Header.Get("Content-Range"), "/")
	switch {
	case response.Header.Get("Content-Type") == "application/json":
		return nil, 0, api.E(op, api.Invalid, f.subject(), errors.New("this is a folder"))
	case !ranged: // an empty file has no ranges
		return []byte{}, 0, nil
	case response.StatusCode == http.StatusRequestedRangeNotSatisfiable: // the file ends before
		most = 0
	}
	size, err = strconv.ParseInt(whole, 10, 64)
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(response.Body, most))
	}
	if err != nil {
		return nil, 0, api.E(op, api.Unavailable, f.subject(), err)
	}
	return data, size, nil
}

// Follow writes an output of the task, which Path names as stdout or stderr: what there is from the offset on, and then
// what is added, until the task has ended. It returns how many bytes it has written, also with an error. The kinds of
// its errors are those of Copy.
func (f File) Follow(ctx context.Context, offset int64, to io.Writer) (written int64, err error) {
	if f.Address == "" {
		return 0, f.noAddress()
	}
	response, err := f.ask(ctx, "logs", f.name(), url.Values{"offset": {strconv.FormatInt(offset, 10)}, "follow": {"1"}})
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or is no longer wanted
	counted := &sink{to: to}
	err = f.copy(counted, response.Body)
	return counted.bytes, err
}

func (f File) subject() string {
	return strings.TrimSuffix(f.Task.String()+":"+f.Path, ":")
}

func (f File) copy(to io.Writer, from io.Reader) error {
	if f.Most > 0 {
		from = io.LimitReader(from, f.Most+1)
	}
	written := &sink{to: to}
	n, err := io.Copy(written, from)
	switch {
	case written.err != nil:
		return written.err
	case err != nil:
		return api.E(op, api.Unavailable, f.subject(), fmt.Errorf("the agent broke off after %d bytes: %w", n, err))
	case f.Most > 0 && n > f.Most:
		return api.E(op, api.Limit, f.subject(), fmt.Errorf("the file has more than %d bytes", f.Most))
	}
	return nil
}

// sink remembers the errors of the writer, to tell them from those of the agent.
type sink struct {
	to    io.Writer
	bytes int64
	err   error
}

func (s *sink) Write(p []byte) (n int, err error) {
	n, s.err = s.to.Write(p)
	s.bytes += int64(n)
	return n, s.err
}

// Item is one entry of a folder.
type Item struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // file, folder or other
	// Bytes is the size as people see it. For an output whose head was given back to the disk it is all that was ever
	// written.
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
}

// Page is a part of a folder, in the order of names, as an agent answers it.
type Page struct {
	Items []Item `json:"items"`
	// Next is the page token with which to ask for the next page; "": there is none.
	Next string `json:"next_page_token,omitempty"`
}

// List returns the entries of the folder, sorted by name: at most that many, and whether there are more. The kinds of
// its error are those of Copy, except that a file is Invalid.
func (f File) List(ctx context.Context, most int) (items []Item, more bool, err error) {
	if f.Address == "" {
		return nil, false, f.noAddress()
	}
	for token := ""; ; {
		page, err := f.page(ctx, token)
		if err != nil {
			return nil, false, err
		}
		items = append(items, page.Items...)
		if len(items) >= most {
			return items[:most], len(items) > most || page.Next != "", nil
		}
		if token = page.Next; token == "" {
			return items, false, nil
		}
	}
}

func (f File) page(ctx context.Context, token string) (page Page, err error) {
	response, err := f.ask(ctx, "files", f.name(), url.Values{"page_token": {token}})
	if err != nil {
		return page, err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or is no longer wanted
	if response.Header.Get("Content-Type") != "application/json" {
		return page, api.E(op, api.Invalid, f.subject(), errors.New("this is a file; 'tender cp' copies it"))
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, folderBytesMax)).Decode(&page); err != nil {
		return page, api.E(op, api.Unavailable, f.subject(), err)
	}
	return page, nil
}

func (f File) name() string { return path.Clean("/" + f.Path)[1:] }

func (f File) noAddress() error {
	return api.E(op, api.Unavailable, f.subject(), ErrNoAddress)
}

// ask makes a request for files or logs to the agent, and turns a refusal into an error.
func (f File) ask(ctx context.Context, what, name string, query url.Values) (*http.Response, error) {
	response, err := f.get(ctx, what, name, query)
	if err != nil {
		return nil, api.E(op, api.Unavailable, f.subject(), err)
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable:
		return response, nil
	}
	defer func() { _ = response.Body.Close() }() // what is needed was read
	switch response.StatusCode {
	case http.StatusBadRequest:
		return nil, api.E(op, api.Invalid, f.subject(), errors.New(after(api.Invalid, why(response))))
	case http.StatusNotFound:
		return nil, api.E(op, api.NotFound, f.subject(), errors.New(after(api.NotFound, why(response))))
	case http.StatusForbidden:
		return nil, api.E(op, api.Denied, f.subject(), errors.New(after(api.Denied, why(response))))
	}
	return nil, api.E(op, api.Unavailable, f.subject(), fmt.Errorf("the agent answers %s: %s", response.Status, why(response)))
}

func (f File) get(ctx context.Context, what, name string, query url.Values) (*http.Response, error) {
	parts := []string{"v1", what, string(f.Task.Framework), string(f.Task.Task)}
	target := url.URL{Scheme: "http", Host: f.Address, Path: "/" + strings.Join(append(parts, name), "/")}
	if f.Executor {
		query.Set("executor", "1")
	}
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	trust.ShowTicket(request, f.Ticket)
	if f.span != "" {
		request.Header.Set("Range", f.span)
	}
	transport := &http.Transport{DisableKeepAlives: true} // one connection for each file
	if f.Dial != nil {
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return f.Dial(ctx, address) }
	}
	return (&http.Client{Transport: transport}).Do(request)
}

// after returns an agent's error without the operation and the kind with which it begins.
func after(kind api.Kind, text string) string {
	if _, words, found := strings.Cut(text, ": "+kind.String()+": "); found {
		return words
	}
	return text
}

func why(response *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(response.Body, whyBytesMax)) // an incomplete text is better than none
	return strings.TrimSpace(string(text))
}

// contents returns the names of what a folder contains.
func contents(list io.Reader) string {
	var folder Page
	if err := json.NewDecoder(io.LimitReader(list, folderBytesMax)).Decode(&folder); err != nil {
		return "what could not be read: " + err.Error()
	}
	var names []string
	for i, item := range folder.Items {
		if i == namedMax {
			names = append(names, "…")
			break
		}
		names = append(names, item.Name)
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
