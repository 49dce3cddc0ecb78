package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"

	"github.com/rs/zerolog"
	"github.com/tenderhq/tender/agent/containers"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/agent/inside"
	"github.com/tenderhq/tender/agent/taskhttp"
	"github.com/tenderhq/tender/agent/visitors"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/datafolder"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/watchdog"
)

// front serves those who come by HTTP. It changes nothing of tasks but by commands that people run inside them.
type front struct {
	config    *Config
	log       zerolog.Logger
	folder    *dataFolder
	inbox     *inbox
	metrics   *metrics
	walls     *isolation
	listeners *listeners
	preparing *preparations
	samples   *sampling
	round     *watchdog.Loop

	visitors visitors.Visitors // checks tickets and writes the audit log
	tasks    taskhttp.Readers  // serves those who follow the output of tasks
	commands inside.Sessions   // commands that people run inside tasks
	pictures pictures          // limits answers that show everything on the agent
}

// serve serves until the context ends:
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
func (f *front) serve(ctx context.Context) {
	if f.listeners.http == nil {
		return
	}
	guard, mux := f.guard(), http.NewServeMux()
	for pattern, handler := range f.routes() {
		mux.HandleFunc(pattern, guard.Hold("agent "+pattern, handler))
	}
	defer f.commands.Wait()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           trust.KnownHosts(mux, hostOf(f.listeners.httpAddress()), hostOf(f.listeners.http.Addr().String())),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       trust.WithConn,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Protocols:         &protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: streamsMax},
	}
	err := server.Serve(f.folder.holder().Listener(f.listeners.http.during(ctx), trust.Door{Strangers: true, Plain: f.config.OpenHTTP}))
	if ctx.Err() == nil {
		f.inbox.fail(api.E("agent.http", api.Internal, f.listeners.httpAddress(), err))
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close() //nolint:errcheck // whoever still reads is cut off
	}
}

// routes returns everything that is served, by the patterns that the table of rights uses.
func (f *front) routes() map[string]http.HandlerFunc {
	tasks := f.taskServer()
	return map[string]http.HandlerFunc{
		"GET /healthz":                               func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") },
		"GET /readyz":                                f.serveReady,
		"GET /metrics":                               f.serveMetrics,
		"GET /debug/pprof/":                          pprof.Index,
		"GET /debug/pprof/profile":                   pprof.Profile,
		"GET /debug/pprof/trace":                     pprof.Trace,
		"GET /debug/pprof/symbol":                    pprof.Symbol,
		"GET /v1/logs/{framework}/{task}/{stream}":   tasks.Logs,
		"GET /v1/output/{framework}/{task}":          tasks.Output,
		"GET /v1/files/{framework}/{task}/{path...}": tasks.Files,
		"POST /v1/exec/{framework}/{task}":           tasks.Command,
		"GET /v1/state":                              f.servePicture(func(p core.Picture) any { return p }),
		"GET /v1/executors":                          f.servePicture(func(p core.Picture) any { return map[string]any{"items": p.Executors} }),
		"GET /v1/containers": f.servePicture(func(p core.Picture) any {
			return map[string]any{"items": containers.List(p, f.walls.cells.Measure)}
		}),
		"POST /v1/images/prune": f.pruneImages,
		"GET /v1/flags":         f.serveFlags,
		"GET /v1/log":           f.config.LogWritten.Show,
		"GET /v1/log-level":     serveLogLevel(f.config.LogLevel, &f.visitors),
		"PUT /v1/log-level":     serveLogLevel(f.config.LogLevel, &f.visitors),
	}
}

func (f *front) guard() visitors.Guard {
	return visitors.Guard{
		Visitors: &f.visitors, Identify: f.identify(), Plain: f.config.OpenHTTP, Holder: f.folder.holder(), Denied: &f.metrics.denied,
		Agent: func(ctx context.Context) (id api.AgentID, alive bool) {
			alive = f.inbox.ask(ctx, func(c *core.Core) { id = c.Identity().Agent })
			return id, alive
		},
	}
}

// identify returns how this agent finds out who makes a request: by certificates, if it has one itself. nil: nobody is
// identified.
func (f *front) identify() func(context.Context) trust.Identity {
	if f.config.Identify == nil && f.folder.holder() != nil {
		return func(ctx context.Context) trust.Identity { return trust.Of(trust.FromConn(ctx)) }
	}
	return f.config.Identify
}

func (f *front) taskServer() taskhttp.Server {
	return taskhttp.Server{
		Ask: f.inbox.ask, Readers: &f.tasks, Visitors: &f.visitors, Below: f.folder.below, Own: f.folder.own,
		Exec: &f.commands, Cells: f.walls.cells, Log: f.log,
	}
}

// serveReady says whether the agent is ready for work: it has a session with a leading master, and its loop is not
// stuck.
func (f *front) serveReady(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if f.round.Stuck() {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: the agent's loop is stuck, and its log says where; its tasks go on")
		return
	}
	if f.metrics.registered.Load() == 0 {
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
func (f *front) servePicture(show func(core.Picture) any) http.HandlerFunc {
	return f.pictures.bounded(func(w http.ResponseWriter, r *http.Request) {
		var picture core.Picture
		if !f.inbox.ask(r.Context(), func(c *core.Core) { picture = c.Picture() }) {
			visitors.Answer(w, api.E("agent.state", api.Unavailable, "", errors.New("the agent is stopping")))
			return
		}
		for i := range picture.Volumes {
			picture.Volumes[i].Lost = !f.folder.hasVolume(picture.Volumes[i].Volume)
		}
		visitors.AnswerJSON(w, show(picture))
	})
}

// pruneImages removes the images that no task uses, says how many bytes they had, and notes in the audit log who wanted it.
func (f *front) pruneImages(w http.ResponseWriter, r *http.Request) {
	bytes, err := f.preparing.images.GiveUp()
	pruned := map[string]int64{"bytes": bytes}
	if err != nil {
		err := api.E("agent.prune", api.Internal, "", err)
		f.visitors.NoteChange(r, "images", pruned, err)
		visitors.Answer(w, err)
		return
	}
	f.visitors.NoteChange(r, "images", pruned, nil)
	visitors.AnswerJSON(w, pruned)
}

// serveFlags shows the flags that the agent was started with.
func (f *front) serveFlags(w http.ResponseWriter, _ *http.Request) {
	visitors.AnswerJSON(w, map[string]any{"version": version.String(), "flags": f.config.Flags})
}

// serveMetrics writes the Prometheus text format, version 0.0.4. With tasks=1 it also has what each task uses.
func (f *front) serveMetrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	f.metrics.write(w)
	f.writeOwn(w)
	writeListeners(w, f.listeners.http, f.listeners.sockets)
	writeDropped(w, f.config.LogWritten)
	if used := f.samples.last.Load(); used != nil {
		writeFrameworks(w, used)
		if r.FormValue("tasks") == "1" {
			writeTasks(w, used)
		}
	}
}

// writeOwn writes what the agent is, when its certificate ends, and how much room its disk has.
func (f *front) writeOwn(w io.Writer) {
	writeFamily(w, "tender_build_info", "gauge", "1; what this agent is.",
		series{labels: []string{"version", version.String(), "goversion", runtime.Version()}, value: 1})
	if holder := f.folder.holder(); holder != nil && holder.Pass().IsSigned() {
		pass := holder.Pass()
		writeMetric(w, "tender_certificate_expires_timestamp_seconds", "gauge", "When this agent's certificate ends.", pass.Ends().Unix())
		writeMetric(w, "tender_certificate_renewal_timestamp_seconds", "gauge", "When it should be renewed: at half of its life.", pass.RenewAt().Unix())
	}
	if room, err := datafolder.RoomOf(f.config.DataDir); err == nil {
		writeMetric(w, "tender_data_free_bytes", "gauge", "How much more the disk of this agent's data folder can hold.", room.Free)
		if room.Inodes > 0 {
			writeMetric(w, "tender_data_free_inodes", "gauge", "How many more files it can hold; absent where there is no such limit.", room.InodesFree)
		}
	}
}
