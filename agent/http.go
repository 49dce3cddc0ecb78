package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/api"
)

// serveHTTP serves until the context ends:
//
//	GET /healthz
//	GET /readyz
//	GET /metrics
//	GET /debug/pprof/
//	GET /v1/logs/{framework}/{task}/{stdout|stderr}?offset=N&follow=1
//	GET /v1/files/{framework}/{task}/{path}
//
// A negative offset counts from the end. With follow the answer ends when the task has
// ended and all of its output was sent.
func (a *Agent) serveHTTP(ctx context.Context) {
	if a.http == nil {
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.serveReady)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		a.metrics.ServeHTTP(w, r)
		writeListeners(w, a.http, a.sockets)
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /v1/logs/{framework}/{task}/{stream}", a.serveLogs)
	mux.HandleFunc("GET /v1/files/{framework}/{task}/{path...}", a.serveFiles)
	server := &http.Server{
		Handler:           mux,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close() //nolint:errcheck // whoever still reads is cut off
		}
	})
	err := server.Serve(a.http.during(ctx))
	if stop() {
		a.fail(api.E("agent.http", api.Internal, a.Address(), err))
		return
	}
	<-stopped
}

// serveReady says whether a leading master gives this agent work.
func (a *Agent) serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if a.metrics.registered.Load() == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: no session with the leading master; its tasks run on")
		return
	}
	fmt.Fprintln(w, "ok")
}

// sandbox finds a task's folder, and a channel that is closed when the task has ended.
func (a *Agent) sandbox(r *http.Request) (view core.TaskView, ended chan struct{}, err error) {
	ref := api.TaskRef{Framework: api.FrameworkID(r.PathValue("framework")), Task: api.TaskID(r.PathValue("task"))}
	var known bool
	ended = make(chan struct{})
	alive := a.ask(r.Context(), func(c *core.Core) {
		if view, known = c.Task(ref); view.Ended || !known {
			close(ended)
			return
		}
		a.readers[ref] = append(a.readers[ref], ended)
	})
	switch {
	case !alive:
		return view, ended, api.E("agent.logs", api.Unavailable, ref.String(), errors.New("the agent is stopping"))
	case !known:
		return view, ended, api.E("agent.logs", api.NotFound, ref.String(),
			errors.New("this agent has no such task, or its sandbox was deleted since it ended"))
	}
	return view, ended, nil
}

// leave forgets a reader that went away before its task's end.
func (a *Agent) leave(r *http.Request, ended chan struct{}) {
	ref := api.TaskRef{Framework: api.FrameworkID(r.PathValue("framework")), Task: api.TaskID(r.PathValue("task"))}
	a.ask(context.WithoutCancel(r.Context()), func(*core.Core) {
		a.readers[ref] = slices.DeleteFunc(a.readers[ref], func(c chan struct{}) bool { return c == ended })
		if len(a.readers[ref]) == 0 {
			delete(a.readers, ref)
		}
	})
}

func (a *Agent) serveLogs(w http.ResponseWriter, r *http.Request) {
	stream := r.PathValue("stream")
	offset, err := strconv.ParseInt(defaulted(r.FormValue("offset"), "0"), 10, 64)
	if err != nil || stream != "stdout" && stream != "stderr" {
		answer(w, api.E("agent.logs", api.Invalid, r.URL.Path, errors.New("ask for /v1/logs/FRAMEWORK/TASK/stdout or stderr, and a whole number as offset")))
		return
	}
	view, ended, err := a.sandbox(r)
	if err != nil {
		answer(w, err)
		return
	}
	defer a.leave(r, ended)
	follow := defaulted(r.FormValue("follow"), "0") != "0" && r.FormValue("follow") != "false"
	root, err := openSandbox(view, follow)
	if errors.Is(err, fs.ErrNotExist) {
		return // ended before it had a folder: nothing was said
	}
	if err != nil {
		answer(w, err)
		return
	}
	defer root.Close()
	plain(w)
	out := &flushing{w, http.NewResponseController(w)}
	if follow {
		out.Flush() // so that the client knows that it is connected
		err = tail.Follow(r.Context(), root, stream, offset, ended, out)
	} else {
		err = tail.Copy(root, stream, offset, out)
	}
	if err != nil && r.Context().Err() == nil {
		a.log.Warn().Err(err).Str("path", r.URL.Path).Msg("log was not sent to its end")
	}
}

// openSandbox makes the folder of a task that is about to get one, to wait in it.
func openSandbox(view core.TaskView, follow bool) (*os.Root, error) {
	if follow && !view.Ended {
		if err := os.MkdirAll(view.Sandbox, 0o755); err != nil {
			return nil, err
		}
	}
	return os.OpenRoot(view.Sandbox)
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// flushing sends what was written without waiting for more.
type flushing struct {
	io.Writer
	controller *http.ResponseController
}

func (f *flushing) Flush() { f.controller.Flush() } //nolint:errcheck // the next write says it

// fileItem is one entry of a folder.
type fileItem struct {
	Name     string    `json:"name"`
	Kind     string    `json:"kind"` // file, folder or other
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
}

// serveFiles lists a folder of a sandbox, or sends a file of it. The root keeps links
// from leading elsewhere.
func (a *Agent) serveFiles(w http.ResponseWriter, r *http.Request) {
	view, ended, err := a.sandbox(r)
	if err != nil {
		answer(w, err)
		return
	}
	defer a.leave(r, ended)
	root, err := os.OpenRoot(view.Sandbox)
	if err != nil {
		answer(w, err)
		return
	}
	defer root.Close()
	name := path.Clean(defaulted(r.PathValue("path"), "."))
	info, err := root.Stat(name)
	switch {
	case err != nil:
		answer(w, err)
	case info.IsDir():
		a.listFolder(w, root, name)
	case info.Mode().IsRegular():
		w.Header().Set("Content-Type", "application/octet-stream") // never as a page of ours
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := tail.Copy(root, name, 0, w); err != nil {
			a.log.Warn().Err(err).Str("path", r.URL.Path).Msg("file was not sent to its end")
		}
	default:
		answer(w, api.E("agent.files", api.Invalid, name, errors.New("neither a file nor a folder")))
	}
}

func (a *Agent) listFolder(w http.ResponseWriter, root *os.Root, name string) {
	folder, err := root.Open(name)
	if err != nil {
		answer(w, err)
		return
	}
	defer folder.Close()
	entries, err := folder.ReadDir(api.PageItemsMax)
	if err != nil && !errors.Is(err, io.EOF) {
		answer(w, err)
		return
	}
	items := []fileItem{}
	for _, entry := range entries {
		item := fileItem{Name: entry.Name(), Kind: "other"}
		if info, err := entry.Info(); err == nil {
			item.Bytes, item.Modified = info.Size(), info.ModTime().UTC()
		}
		switch {
		case entry.IsDir():
			item.Kind = "folder"
		case entry.Type().IsRegular():
			item.Kind = "file"
		}
		items = append(items, item)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"items": items}) //nolint:errcheck // a client that went away
}

func defaulted(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// answer says what went wrong, in words and by the status.
func answer(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, fs.ErrNotExist), api.Is(err, api.NotFound):
		code = http.StatusNotFound
	case api.Is(err, api.Invalid):
		code = http.StatusBadRequest
	case api.Is(err, api.Unavailable):
		code = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), code)
}
