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
	"strconv"
	"syscall"
	"time"

	"github.com/tenderhq/tender/agent/containers"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/files"
	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/agent/tail"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/loglevel"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/internal/ticket"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/version"
)

// serveHTTP serves until the context ends:
//
//	GET /healthz
//	GET /readyz
//	GET /metrics
//	GET /debug/pprof/
//	GET /v1/logs/{framework}/{task}/{stdout|stderr}?offset=N&lines=N&since=90s&follow=1
//	GET /v1/output/{framework}/{task}?stdout=N&stdout.lines=N&stdout.since=90s&stderr=N&...&follow=1
//	GET /v1/files/{framework}/{task}/{path}?page_token=NAME&limit=N
//	GET /v1/state
//	GET /v1/executors
//	GET /v1/containers
//	GET /v1/flags
//	GET /v1/log-level
//	PUT /v1/log-level?level=debug
//	POST /v1/exec/{framework}/{task}, which becomes a session of package inside
//
// With executor=1 logs, output and files speak of the folder of the task's executor instead: its own
// stdout and stderr, also after it has crashed, for as long as a folder of its tasks is kept.
//
// Of a file a range may be asked for, as of any other; a folder is listed by pages. State is JSON: the agent, its
// executors and its tasks. Executors are the same list alone; containers are what executors and tasks live in, with what
// they use.
//
// A negative offset counts from the end; lines asks for the last so many; an output that was last written
// longer ago than since is left out. With follow the answer ends when the task has
// ended and all of its output was sent. Logs are bytes for people; output is for programs:
// the named streams as frames, see package tail, the last of which says that it is whole.
// It speaks HTTP/1 and, without TLS, HTTP/2, so that a client follows thousands of tasks on
// one connection.
func (a *Agent) serveHTTP(ctx context.Context) {
	if a.listeners.http == nil {
		return
	}
	mux := http.NewServeMux()
	for pattern, handler := range a.routes() {
		mux.HandleFunc(pattern, a.guarded("agent "+pattern, handler))
	}
	defer a.exec.Wait()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           trust.KnownHosts(mux, hostOf(a.Address()), hostOf(a.listeners.http.Addr().String())),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       trust.WithConn,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: streamsMax},
	}
	err := server.Serve(a.holder().Listener(a.listeners.http.during(ctx), trust.Door{Strangers: true, Plain: a.config.OpenHTTP}))
	if ctx.Err() == nil {
		a.inbox.fail(api.E("agent.http", api.Internal, a.Address(), err))
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close() //nolint:errcheck // whoever still reads is cut off
	}
}

// routes are all that is served, by the patterns under which the table of rights has them.
func (a *Agent) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /healthz": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") },
		"GET /readyz":  a.serveReady,
		"GET /metrics": func(w http.ResponseWriter, r *http.Request) {
			a.metrics.ServeHTTP(w, r)
			writeListeners(w, a.listeners.http, a.listeners.sockets)
			writeDropped(w, a.config.LogDropped)
		},
		"GET /debug/pprof/":                          pprof.Index,
		"GET /debug/pprof/profile":                   pprof.Profile,
		"GET /debug/pprof/trace":                     pprof.Trace,
		"GET /debug/pprof/symbol":                    pprof.Symbol,
		"GET /v1/logs/{framework}/{task}/{stream}":   a.serveLogs,
		"GET /v1/output/{framework}/{task}":          a.serveOutput,
		"GET /v1/files/{framework}/{task}/{path...}": a.serveFiles,
		"POST /v1/exec/{framework}/{task}":           a.serveExec,
		"GET /v1/state":                              a.servePicture(func(p core.Picture) any { return p }),
		"GET /v1/executors":                          a.servePicture(func(p core.Picture) any { return map[string]any{"items": p.Executors} }),
		"GET /v1/containers": a.servePicture(func(p core.Picture) any {
			return map[string]any{"items": containers.List(p, a.cells.Measure)}
		}),
		"GET /v1/flags":     a.serveFlags,
		"GET /v1/log-level": serveLogLevel(a.config.LogLevel, &a.readers.visitors),
		"PUT /v1/log-level": serveLogLevel(a.config.LogLevel, &a.readers.visitors),
	}
}

// guarded holds a route to its row of the table of rights. Agents know no principals: what takes a grant is opened by a
// ticket, with which the leader says that whoever shows it has one.
func (a *Agent) guarded(call string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, identity := a.callerOf(r)
		r = r.WithContext(visitors.With(r.Context(), caller, call))
		ctx, leave, err := a.admit(call, r, caller, identity)
		if err != nil {
			a.metrics.denied.Add(1)
			a.readers.visitors.NoteDenied(r, err)
			answer(w, err)
			return
		}
		defer leave()
		serve(w, r.WithContext(ctx))
	}
}

// callerOf is who asks.
func (a *Agent) callerOf(r *http.Request) (rights.Caller, trust.Identity) {
	identify := a.identify()
	if identify == nil {
		return rights.Caller{Kind: rights.Anybody}, trust.Identity{}
	}
	identity := identify(r.Context())
	if a.config.OpenHTTP && identity.Kind == trust.Nobody {
		return rights.Caller{Kind: rights.Anybody}, identity
	}
	return rights.Caller{Kind: rights.Kind(identity.Kind.String()), Name: identity.Name}, identity
}

func (a *Agent) admit(call string, r *http.Request, caller rights.Caller, who trust.Identity) (ctx context.Context, leave func(), err error) {
	row, known := rights.RowOf(call)
	if !known {
		row = rights.Row{Call: call}
	}
	_, denied := rights.Decide(row, caller)
	switch {
	case denied == nil:
		return r.Context(), func() {}, nil
	case row.Ticket == "":
		return nil, nil, denied
	}
	return a.admitByTicket(r, row.Ticket, who)
}

// admitByTicket lets in who shows a ticket of the leader that opens what is asked for.
func (a *Agent) admitByTicket(r *http.Request, opens rights.Ticket, who trust.Identity) (ctx context.Context, leave func(), err error) {
	if a.holder() == nil {
		return nil, nil, api.E("agent.ticket", api.Denied, "", errors.New("this agent has no certificate, so it knows no masters that sign tickets"))
	}
	wanted := ticket.Ticket{
		For: who, Opens: opens,
		Task: api.TaskRef{Framework: api.FrameworkID(r.PathValue("framework")), Task: api.TaskID(r.PathValue("task"))},
	}
	if !a.inbox.ask(r.Context(), func(c *core.Core) { wanted.Agent = c.Identity().Agent }) {
		return nil, nil, api.E("agent.ticket", api.Unavailable, "", errors.New("the agent is stopping"))
	}
	return a.readers.visitors.Enter(r, a.holder().Pass(), wanted)
}

// holder shows this agent's certificate; nil: it has none.
func (a *Agent) holder() *trust.Holder {
	if a.folder == nil {
		return nil
	}
	return a.folder.member.Holder()
}

// identify is how this agent knows who asks: by their certificates if it has one itself. Nil: nobody is asked.
func (a *Agent) identify() func(context.Context) trust.Identity {
	if a.config.Identify == nil && a.holder() != nil {
		return func(ctx context.Context) trust.Identity { return trust.Of(trust.FromConn(ctx)) }
	}
	return a.config.Identify
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

// serveReady says whether a leading master gives this agent work.
func (a *Agent) serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if a.round.Stuck() {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: the agent's loop is stuck, and its log says where; its tasks run on")
		return
	}
	if a.metrics.registered.Load() == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: no session with the leading master; its tasks run on")
		return
	}
	fmt.Fprintln(w, "ok")
}

// streamsMax bounds what a connection asks for at the same time; who wants more opens another.
const streamsMax = 10_000

// enterReader finds the folder of the task that is asked for.
func (a *Agent) enterReader(r *http.Request) (*reader, error) {
	reader := &reader{
		task: api.TaskRef{Framework: api.FrameworkID(r.PathValue("framework")), Task: api.TaskID(r.PathValue("task"))},
		over: make(chan struct{}),
	}
	known := false
	alive := a.inbox.ask(r.Context(), func(c *core.Core) {
		var view core.TaskView
		if view, known = c.Task(reader.task); !known {
			return
		}
		reader.view = view
		reader.folder = a.folder.below.At(view.Sandbox)
		if asks(r, "executor") {
			reader.folder = a.folder.below.At(view.ExecutorSandbox)
		}
		if reader.ended = view.Ended; view.Ended {
			close(reader.over)
			return
		}
		a.readers.add(reader)
	})
	switch {
	case !alive:
		return nil, api.E("agent.logs", api.Unavailable, reader.task.String(), errors.New("the agent is stopping"))
	case !known:
		return nil, api.E("agent.logs", api.NotFound, reader.task.String(),
			errors.New("this agent has no such task, or its sandbox was deleted since it ended"))
	}
	return reader, nil
}

// leaveReader forgets a reader that went away before its task's end.
func (a *Agent) leaveReader(r *http.Request, left *reader) {
	select {
	case <-left.over:
		return // forgotten already
	default:
	}
	a.inbox.ask(context.WithoutCancel(r.Context()), func(*core.Core) { a.readers.remove(left) })
}

func (a *Agent) serveLogs(w http.ResponseWriter, r *http.Request) {
	stream := r.PathValue("stream")
	file, err := outputAsked(stream, r, "offset", "lines", "since")
	if stream != "stdout" && stream != "stderr" {
		err = errors.New("ask for /v1/logs/FRAMEWORK/TASK/stdout or stderr")
	}
	if err != nil {
		answer(w, api.E("agent.logs", api.Invalid, r.URL.Path, err))
		return
	}
	reader, err := a.enterReader(r)
	if err != nil {
		answer(w, err)
		return
	}
	defer a.leaveReader(r, reader)
	plain(w)
	out := &flushing{w, http.NewResponseController(w)}
	file.To = out
	a.sendToEnd(r, reader, follows(r), out, []*tail.File{file})
}

// outputAsked is what a question asks of an output, by the names of its three parts: the first byte, the last lines, and
// how long ago it may have been written.
func outputAsked(stream string, r *http.Request, offset, lines, since string) (*tail.File, error) {
	file := &tail.File{Name: stream}
	var err error
	if text := r.FormValue(offset); text != "" {
		if file.Offset, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%s=%s is no offset; write a whole number", offset, text)
		}
	}
	if text := r.FormValue(lines); text != "" {
		if file.Lines, err = strconv.Atoi(text); err != nil || file.Lines < 0 {
			return nil, fmt.Errorf("%s=%s is no number of lines; write 0 or more", lines, text)
		}
	}
	if text := r.FormValue(since); text != "" {
		ago, err := time.ParseDuration(text)
		if err != nil || ago <= 0 {
			return nil, fmt.Errorf("%s=%s is no time; write one such as 90s", since, text)
		}
		file.Since = time.Now().Add(-ago)
	}
	return file, nil
}

// serveOutput sends the outputs that the question names.
func (a *Agent) serveOutput(w http.ResponseWriter, r *http.Request) {
	out := &flushing{w, http.NewResponseController(w)}
	var files []*tail.File
	for stream, kind := range map[string]byte{"stdout": tail.FrameStdout, "stderr": tail.FrameStderr} {
		if r.FormValue(stream) != "" {
			file, err := outputAsked(stream, r, stream, stream+".lines", stream+".since")
			if err != nil {
				answer(w, api.E("agent.output", api.Invalid, r.URL.Path, err))
				return
			}
			file.To = tail.Frames{To: out, Kind: kind}
			files = append(files, file)
		}
	}
	reader, err := a.enterReader(r)
	if err != nil {
		answer(w, err)
		return
	}
	defer a.leaveReader(r, reader)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if a.sendToEnd(r, reader, follows(r), out, files) {
		_ = tail.WriteEnd(out) // a client that went away asks again
	}
}

func follows(r *http.Request) bool { return asks(r, "follow") }

// asks says whether the question has this switch set.
func asks(r *http.Request, name string) bool {
	value := r.FormValue(name)
	return value != "" && value != "0" && value != "false"
}

// sendToEnd writes what the files hold, or come to hold until the task's end; true: all of it.
func (a *Agent) sendToEnd(r *http.Request, from *reader, follow bool, out *flushing, files []*tail.File) bool {
	err := a.sendFiles(r.Context(), from, follow, out, files)
	if err != nil && r.Context().Err() == nil {
		a.log.Warn().Err(err).Str("path", r.URL.Path).Msg("log was not sent to its end")
	}
	return err == nil && (!follow || from.ended)
}

func (a *Agent) sendFiles(ctx context.Context, from *reader, follow bool, out *flushing, files []*tail.File) error {
	select {
	case <-from.over:
		follow = false
	default:
	}
	if !follow {
		return tail.Copy(from.folder, files)
	}
	// A task that is about to get its folder is waited for in it.
	root, err := from.folder.Ensure()
	if err != nil {
		return err
	}
	if err := root.Close(); err != nil {
		return err
	}
	out.Flush() // so that the client knows that it is connected
	return a.readers.followed.Follow(ctx, from.folder, files, from.over)
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

// serveFiles lists a folder of a sandbox, or sends a file of it. The root keeps links
// from leading elsewhere.
func (a *Agent) serveFiles(w http.ResponseWriter, r *http.Request) {
	reader, err := a.enterReader(r)
	if err != nil {
		answer(w, err)
		return
	}
	defer a.leaveReader(r, reader)
	name := path.Clean(defaulted(r.PathValue("path"), "."))
	file, err := reader.folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would block
	if err == nil {
		defer file.Close()
	}
	switch info, err := statOf(file, err); {
	case err == nil && secrets.Holds(file):
		answer(w, api.E("agent.files", api.Denied, name, errors.New("it is a secret, which only its task is shown")))
	case errors.Is(err, fs.ErrNotExist):
		answer(w, api.E("agent.files", api.NotFound, name, fmt.Errorf("%s has no such file in its folder; it has not written it, or has removed it", reader.task)))
	case err != nil:
		answer(w, err)
	case info.IsDir():
		a.listFolder(w, r, file)
	case info.Mode().IsRegular():
		w.Header().Set("Content-Type", "application/octet-stream") // never as a page of ours
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.Header.Get("Range") != "" {
			http.ServeContent(w, r, "", info.ModTime(), file)
			return
		}
		if err := tail.CopyFile(reader.folder, &tail.File{Name: name, To: w}); err != nil {
			a.log.Warn().Err(err).Str("path", r.URL.Path).Msg("file was not sent to its end")
			panic(http.ErrAbortHandler) // so that nobody takes a part for the whole
		}
	default:
		answer(w, api.E("agent.files", api.Invalid, name, errors.New("neither a file nor a folder")))
	}
}

// serveExec runs a command inside a task.
func (a *Agent) serveExec(w http.ResponseWriter, r *http.Request) {
	if err := inside.Check(r); err != nil {
		answer(w, err)
		return
	}
	reader, err := a.enterReader(r)
	if err != nil {
		answer(w, err)
		return
	}
	defer a.leaveReader(r, reader)
	if reader.view.Process.PID == 0 {
		answer(w, api.E("agent.exec", api.NotFound, reader.task.String(), errors.New("the task does not run; only beside one that does can a command be run")))
		return
	}
	note := func(command inside.Command, ended *inside.End) {
		a.readers.visitors.NoteCommand(r, visitors.Command{Task: reader.task, Argv: command.Argv}, ended)
	}
	session := inside.Session{
		Target: reader.view.Process, Sandbox: reader.view.Sandbox, Reach: a.cells.Reach(a.folder.own(reader.view)...), Over: reader.over, Note: note,
	}
	if err := a.exec.Serve(w, r, session); err != nil {
		answer(w, err)
	}
}

func statOf(file *os.File, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return file.Stat()
}

// listFolder answers with one page of a folder.
func (a *Agent) listFolder(w http.ResponseWriter, r *http.Request, folder *os.File) {
	limit, err := strconv.Atoi(defaulted(r.FormValue("limit"), "0"))
	if err != nil || limit < 0 {
		answer(w, api.E("agent.files", api.Invalid, r.URL.Path, fmt.Errorf("limit=%s is no number of entries; write 0 or more", r.FormValue("limit"))))
		return
	}
	page, err := files.List(folder, r.FormValue("page_token"), limit)
	if err != nil {
		answer(w, err)
		return
	}
	answerJSON(w, page)
}

func answerJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	json.NewEncoder(w).Encode(value) //nolint:errcheck // a client that went away
}

// servePicture shows what is on the agent, for people and programs that look into it.
func (a *Agent) servePicture(show func(core.Picture) any) http.HandlerFunc {
	return a.readers.pictures.bounded(func(w http.ResponseWriter, r *http.Request) {
		var picture core.Picture
		if !a.inbox.ask(r.Context(), func(c *core.Core) { picture = c.Picture() }) {
			answer(w, api.E("agent.state", api.Unavailable, "", errors.New("the agent is stopping")))
			return
		}
		answerJSON(w, show(picture))
	})
}

// serveFlags says with what the agent was started.
func (a *Agent) serveFlags(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, map[string]any{"version": version.String(), "flags": a.config.Flags})
}

var errNoLogLevel = errors.New("the level of this process's log is not known; it can't be changed")

// serveLogLevel tells from which level on this process logs. By PUT that is changed first, until the process ends, and it is
// written down who did.
func serveLogLevel(level *loglevel.Level, noted *visitors.Visitors) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var err *api.Error
		wanted := r.URL.Query().Get("level")
		if level == nil {
			err = api.E("agent.log-level", api.Unsupported, "", errNoLogLevel)
		}
		if r.Method == http.MethodPut {
			if err == nil {
				if wrong := level.Set(wanted); wrong != nil {
					err = api.E("agent.log-level", api.Invalid, "", wrong)
				}
			}
			noted.NoteChange(r, "log level", map[string]string{"level": wanted}, err)
		}
		if err != nil {
			answer(w, err)
			return
		}
		_ = level.Show(w) // else nobody waits for it
	}
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
	case api.Is(err, api.Denied):
		code = http.StatusForbidden
	case api.Is(err, api.Limit):
		code = http.StatusTooManyRequests
	case api.Is(err, api.Unavailable):
		code = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), code)
}
