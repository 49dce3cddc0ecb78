package master

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/outbox"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/watching"
)

// watchService tells what changes in the cluster, and what has changed.
type watchService struct {
	apiv1.UnimplementedWatchServiceServer
	config  *Config
	raft    *raftlog.Log
	leading *leadership
	watches *watchLogs
}

// logOf returns the log that a watch is served from.
func (w *watchLogs) logOf(r *apiv1.WatchRequest) *watching.Log {
	if r.GetEventsOnly() {
		return w.events
	}
	return w.views
}

// Watch tells what there is, and then every change, from what this master knows of it.
func (s watchService) Watch(r *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	const op = "watch"
	if err := change.CheckKinds(op, r.GetKinds()); err != nil {
		return err
	}
	serving := outbox.Serving{Beside: s.leading.beside.Go, Over: s.watches.over, Ended: func(op string) *api.Error {
		return api.E(op, api.Unavailable, s.config.ID, errors.New("this master ends"))
	}}
	return outbox.SendUntil(serving, op, func(slow *outbox.Patience) error {
		return s.watches.logOf(r).Serve(stream.Context(), watching.Watcher{
			Request: r, By: guard.ScopeOf(stream.Context()), Read: s.raft.Read,
			Send: func(news *apiv1.WatchResponse) error { return slow.During(func() error { return stream.Send(news) }) },
		})
	})
}

// eventWriteMax is how long writing one server-sent event may take before its reader is given up.
const eventWriteMax = 30 * time.Second

// serveWatch serves Watch as server-sent events. The ID of an event is its cursor; a client that comes back with it in
// the header Last-Event-ID resumes there.
func (s *httpServer) serveWatch(w http.ResponseWriter, r *http.Request) {
	request := &apiv1.WatchRequest{}
	query := r.URL.Query()
	last := query.Get("after")
	query.Del("after")
	if header := r.Header.Get("Last-Event-ID"); header != "" {
		last = header
	}
	err := fromQuery(query, request)
	if err == nil && last != "" {
		request.After, err = cursorFrom(last)
	}
	if err == nil {
		err = change.CheckKinds("watch", request.GetKinds())
	}
	if err != nil {
		writeError(w, err)
		return
	}
	leave, err := admit(&s.calls.streams, streamsMax, "streams", apiv1.WatchService_Watch_FullMethodName)
	if err != nil {
		writeError(w, err)
		return
	}
	defer leave()
	ctx, left := s.guard.Enter(r.Context())
	defer func() { _ = left() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.watches.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the request has been read, and the client may be silent
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	err = s.watches.logOf(request).Serve(ctx, watching.Watcher{
		Request: request, By: guard.ScopeOf(ctx), Read: s.raft.Read, Decode: true,
		Send: func(news *apiv1.WatchResponse) error {
			body, err := wire.JSON(news)
			if err != nil {
				return err
			}
			return writeEvent(w, control, cursorText(news.GetCursor()), "", body)
		},
	})
	if err != nil && ctx.Err() == nil {
		e := wire.Error(err)
		body, _ := json.Marshal(map[string]string{"kind": e.Kind.String(), "message": e.Error()})
		_ = writeEvent(w, control, "", "error", body) // the client has perhaps gone
	}
}

// writeEvent writes a server-sent event and flushes it.
func writeEvent(w http.ResponseWriter, control *http.ResponseController, id, kind string, data []byte) error {
	if err := control.SetWriteDeadline(time.Now().Add(eventWriteMax)); err != nil {
		return err
	}
	var text strings.Builder
	if id != "" {
		fmt.Fprintf(&text, "id: %s\n", id)
	}
	if kind != "" {
		fmt.Fprintf(&text, "event: %s\n", kind)
	}
	fmt.Fprintf(&text, "data: %s\n\n", strings.ReplaceAll(string(data), "\n", "\ndata: "))
	if _, err := w.Write([]byte(text.String())); err != nil {
		return err
	}
	return control.Flush()
}

// cursorText writes a cursor as EPOCH-TERM-NUMBER; "" for none.
func cursorText(c *apiv1.Cursor) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%d-%d-%d", c.GetTerm().GetEpoch(), c.GetTerm().GetNumber(), c.GetNumber())
}

// cursorFrom reads what cursorText has written.
func cursorFrom(text string) (*apiv1.Cursor, error) {
	var numbers [3]uint64
	parts := strings.Split(text, "-")
	err := errors.New("a cursor is EPOCH-TERM-NUMBER, as the id of an event has it")
	if len(parts) != len(numbers) {
		return nil, api.E("watch", api.Invalid, text, err)
	}
	for i, part := range parts {
		n, wrong := strconv.ParseUint(part, 10, 64)
		if wrong != nil {
			return nil, api.E("watch", api.Invalid, text, err)
		}
		numbers[i] = n
	}
	return &apiv1.Cursor{Term: &apiv1.Term{Epoch: numbers[0], Number: numbers[1]}, Number: numbers[2]}, nil
}
