// Package sandbox reads files of tasks from their agents, also after a task's end, for as long as the agent keeps its
// folder. It knows nothing of masters, and writes nothing but to who asked.
package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/tenderhq/tender/api"
)

// File names a file of a task, or of the task's executor.
type File struct {
	Task     api.TaskRef
	Executor bool
	Path     string // below the folder
	// Address is where the task's agent listens for HTTP.
	Address string
	// Dial opens the connection. Default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Most is how many bytes the file may have. 0: as many as it likes.
	Most int64
}

const (
	op = "task.file"
	// whyBytesMax of an agent's refusal are shown.
	whyBytesMax = 400
	// namedMax of a folder's files are named in an error.
	namedMax = 20
	// folderBytesMax of a folder's list are read.
	folderBytesMax = 1 << 20
)

// Copy writes the file. The error's kind is NotFound where the agent has no such task or file (any more), Limit for a file of
// more than Most bytes, Invalid for a folder, and Unavailable for an agent that does not answer to the end.
func (f File) Copy(ctx context.Context, to io.Writer) error {
	name := path.Clean("/" + f.Path)[1:]
	if f.Address == "" {
		return api.E(op, api.Unavailable, f.subject(), errors.New("its agent has told no address for HTTP; it was started with --http-port 0"))
	}
	response, err := f.get(ctx, name)
	if err != nil {
		return api.E(op, api.Unavailable, f.subject(), err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end or given up
	switch {
	case response.StatusCode == http.StatusNotFound:
		return api.E(op, api.NotFound, f.subject(), errors.New(why(response)))
	case response.StatusCode != http.StatusOK:
		return api.E(op, api.Unavailable, f.subject(), fmt.Errorf("the agent answers %s: %s", response.Status, why(response)))
	case response.Header.Get("Content-Type") == "application/json":
		return api.E(op, api.Invalid, f.subject(), fmt.Errorf("this is a folder; it has %s", contents(response.Body)))
	}
	return f.copy(to, response.Body)
}

func (f File) subject() string {
	return f.Task.String() + ":" + f.Path
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

// sink tells the writer's own errors from those of the agent.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(p []byte) (n int, err error) {
	n, s.err = s.to.Write(p)
	return n, s.err
}

func (f File) get(ctx context.Context, name string) (*http.Response, error) {
	parts := []string{"v1", "files", string(f.Task.Framework), string(f.Task.Task)}
	target := url.URL{Scheme: "http", Host: f.Address, Path: "/" + strings.Join(append(parts, name), "/")}
	if f.Executor {
		target.RawQuery = "executor=1"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // a connection for one file
	if f.Dial != nil {
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) { return f.Dial(ctx, address) }
	}
	return (&http.Client{Transport: transport}).Do(request)
}

func why(response *http.Response) string {
	text, _ := io.ReadAll(io.LimitReader(response.Body, whyBytesMax)) // better than nothing
	return strings.TrimSpace(string(text))
}

// contents names what a folder has.
func contents(list io.Reader) string {
	var folder struct {
		Items []struct {
			Name string `json:"name"`
		} `json:"items"`
	}
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
