package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/tenderhq/tender/agent/containers"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/agent/taskhttp"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/version"
)

// front holds what serves those who come by HTTP.
type front struct {
	visitors visitors.Visitors // checks tickets and writes the audit log
	tasks    taskhttp.Readers  // serves those who follow the output of tasks
	commands inside.Sessions   // commands that people run inside tasks
	pictures pictures          // limits answers that show everything on the agent
}

// serveHTTP serves until the context ends:
//
//	GET /healthz
//	GET /readyz
//	GET /metrics?tasks=1
//	GET /debug/pprof/
//	GET /v1/logs/{framework}/{task}/{stdout|stderr}?offset=N&lines=N&since=90s&follow=1
//	GET /v1/output/{framework}/{task}?stdout=N&stdout.lines=N&stdout.since=90s&stderr=N&...&follow=1
//	GET /v1/files/{framework}/{task}/{path}?page_token=NAME&limit=N
//	GET /v1/state
//	GET /v1/executors
//	GET /v1/containers
//	POST /v1/images/prune
//	GET /v1/flags
//	GET /v1/log?lines=N
//	GET /v1/log-level
//	PUT /v1/log-level?level=debug
//	POST /v1/exec/{framework}/{task}, which becomes a session of package inside
//
// With executor=1 logs, output and files come from the folder of the task's executor instead: its own stdout and
// stderr. They are there also after it has crashed, for as long as the folder of one of its tasks is kept.
//
// A range of a file may be asked for, as usual in HTTP. Folders are listed in pages. State is JSON: the agent, its
// executors and its tasks. Executors is the list of executors alone. Containers lists what executors and tasks live in,
// with what they use.
//
// A negative offset counts from the end. lines asks for that many last lines. since leaves out an output that was last
// written longer ago. With follow the answer ends when the task has ended and all of its output was sent. Logs are
// plain bytes for people. Output is for programs: the named streams as frames (see package tail), of which the last one
// says that the answer is complete. The server speaks HTTP/1 and, without TLS, HTTP/2, so that a client can follow
// thousands of tasks on one connection.
func (a *Agent) serveHTTP(ctx context.Context) {
	if a.listeners.http == nil {
		return
	}
	guard, mux := a.guard(), http.NewServeMux()
	for pattern, handler := range a.routes() {
		mux.HandleFunc(pattern, guard.Hold("agent "+pattern, handler))
	}
	defer a.front.commands.Wait()
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

// routes returns everything that is served, by the patterns that the table of rights uses.
func (a *Agent) routes() map[string]http.HandlerFunc {
	tasks := a.taskServer()
	return map[string]http.HandlerFunc{
		"GET /healthz":                               func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") },
		"GET /readyz":                                a.serveReady,
		"GET /metrics":                               a.serveMetrics,
		"GET /debug/pprof/":                          pprof.Index,
		"GET /debug/pprof/profile":                   pprof.Profile,
		"GET /debug/pprof/trace":                     pprof.Trace,
		"GET /debug/pprof/symbol":                    pprof.Symbol,
		"GET /v1/logs/{framework}/{task}/{stream}":   tasks.Logs,
		"GET /v1/output/{framework}/{task}":          tasks.Output,
		"GET /v1/files/{framework}/{task}/{path...}": tasks.Files,
		"POST /v1/exec/{framework}/{task}":           tasks.Command,
		"GET /v1/state":                              a.servePicture(func(p core.Picture) any { return p }),
		"GET /v1/executors":                          a.servePicture(func(p core.Picture) any { return map[string]any{"items": p.Executors} }),
		"GET /v1/containers": a.servePicture(func(p core.Picture) any {
			return map[string]any{"items": containers.List(p, a.cells.Measure)}
		}),
		"POST /v1/images/prune": a.pruneImages,
		"GET /v1/flags":         a.serveFlags,
		"GET /v1/log":           a.config.LogWritten.Show,
		"GET /v1/log-level":     serveLogLevel(a.config.LogLevel, &a.front.visitors),
		"PUT /v1/log-level":     serveLogLevel(a.config.LogLevel, &a.front.visitors),
	}
}

func (a *Agent) guard() visitors.Guard {
	return visitors.Guard{
		Visitors: &a.front.visitors, Identify: a.identify(), Plain: a.config.OpenHTTP, Holder: a.holder(), Denied: &a.metrics.denied,
		Agent: func(ctx context.Context) (id api.AgentID, alive bool) {
			alive = a.inbox.ask(ctx, func(c *core.Core) { id = c.Identity().Agent })
			return id, alive
		},
	}
}

// identify returns how this agent finds out who makes a request: by certificates, if it has one itself. nil: nobody is
// identified.
func (a *Agent) identify() func(context.Context) trust.Identity {
	if a.config.Identify == nil && a.holder() != nil {
		return func(ctx context.Context) trust.Identity { return trust.Of(trust.FromConn(ctx)) }
	}
	return a.config.Identify
}

func (a *Agent) taskServer() taskhttp.Server {
	return taskhttp.Server{
		Ask: a.inbox.ask, Readers: &a.front.tasks, Visitors: &a.front.visitors, Below: a.folder.below, Own: a.folder.own,
		Exec: &a.front.commands, Cells: a.cells, Log: a.log,
	}
}

// holder returns this agent's certificate; nil: it has none.
func (a *Agent) holder() *trust.Holder { return a.folder.member.Holder() }

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	return host
}

// serveReady says whether the agent is ready for work: it has a session with a leading master, and its loop is not
// stuck.
func (a *Agent) serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if a.round.Stuck() {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: the agent's loop is stuck, and its log says where; its tasks go on")
		return
	}
	if a.metrics.registered.Load() == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: no session with the leading master; its tasks go on")
		return
	}
	fmt.Fprintln(w, "ok")
}

// streamsMax is how many requests one connection may have at the same time. A client that wants more opens another
// connection.
const streamsMax = 10_000

// servePicture shows what is on the agent, for people and programs.
func (a *Agent) servePicture(show func(core.Picture) any) http.HandlerFunc {
	return a.front.pictures.bounded(func(w http.ResponseWriter, r *http.Request) {
		var picture core.Picture
		if !a.inbox.ask(r.Context(), func(c *core.Core) { picture = c.Picture() }) {
			visitors.Answer(w, api.E("agent.state", api.Unavailable, "", errors.New("the agent is stopping")))
			return
		}
		for i := range picture.Volumes {
			picture.Volumes[i].Lost = !a.folder.hasVolume(picture.Volumes[i].Volume)
		}
		visitors.AnswerJSON(w, show(picture))
	})
}

// pruneImages removes the images that no task uses, says how many bytes they had, and notes in the audit log who wanted it.
func (a *Agent) pruneImages(w http.ResponseWriter, r *http.Request) {
	bytes, err := a.preparing.images.GiveUp()
	pruned := map[string]int64{"bytes": bytes}
	if err != nil {
		err := api.E("agent.prune", api.Internal, "", err)
		a.front.visitors.NoteChange(r, "images", pruned, err)
		visitors.Answer(w, err)
		return
	}
	a.front.visitors.NoteChange(r, "images", pruned, nil)
	visitors.AnswerJSON(w, pruned)
}

// serveFlags shows the flags that the agent was started with.
func (a *Agent) serveFlags(w http.ResponseWriter, _ *http.Request) {
	visitors.AnswerJSON(w, map[string]any{"version": version.String(), "flags": a.config.Flags})
}

var errNoLogLevel = errors.New("the level of this process's log is not known; it can't be changed")

// serveLogLevel shows the level of this process's log. PUT changes it first, until the process ends, and the audit log
// notes who did that.
func serveLogLevel(level *logging.Level, noted *visitors.Visitors) http.HandlerFunc {
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
			visitors.Answer(w, err)
			return
		}
		_ = level.Show(w) // an error means that nobody waits for the answer
	}
}
