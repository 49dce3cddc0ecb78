package master

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestAWatchTellsWhatOneMaySee: a framework is told of its own tasks and frameworks only, whether by gRPC or as
// server-sent events, and somebody who may look at everything of all.
func TestAWatchTellsWhatOneMaySee(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		own, other := w.subscribe("runner", "eng/web"), w.subscribe("other-runner", "ops")
		for who, sees := range map[string][]string{"runner": {own}, "other-runner": {other}, "viewer": {own, other}} {
			conn := w.from(who)
			stream, err := apiv1.NewWatchServiceClient(conn).Watch(w.ctx, &apiv1.WatchRequest{Kinds: []string{"framework", "principal"}})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			var told bool
			for complete := false; !complete; {
				news, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				complete = news.GetComplete()
				for _, item := range news.GetItems() {
					told = told || item.GetPrincipal() != nil
					if id := item.GetFramework().GetId(); id != "" {
						ids = append(ids, id)
					}
				}
			}
			_ = conn.Close()
			if slices.Sort(ids); !slices.Equal(ids, sees) || told && who != "viewer" {
				t.Errorf("%s is told of the frameworks %v, want %v; of principals: %v", who, ids, sees, told)
			}
			if id, first := w.firstEvent(who, "/v1/watch?kinds=framework"); id == "" || strings.Contains(first, own) != slices.Contains(sees, own) {
				t.Errorf("%s is told by HTTP, with the id %q: %s", who, id, first)
			}
		}
	})
}

// TestAKindThatDoesNotExistIsRefused: who watches, or looks for, a kind that nobody has would see nothing for ever.
func TestAKindThatDoesNotExistIsRefused(t *testing.T) {
	behindWalls(t, "off", func(w *walled) {
		for _, path := range []string{"/v1/watch?kinds=agent&kinds=tasks", "/v1/watch?kinds=tasks&events_only=true"} {
			if code, text := w.fetch("viewer", http.MethodGet, path, ""); code != http.StatusBadRequest || !strings.Contains(text, "tasks") || !strings.Contains(text, "there are agent, ") {
				t.Errorf("%s is answered with %d: %s", path, code, text)
			}
		}
		if _, err := eventsQuery(&apiv1.ListEventsRequest{Kinds: []string{"tasks"}}); !api.Is(err, api.Invalid) {
			t.Errorf("the past of it is refused with %v", err)
		}
		conn := w.from("viewer")
		defer conn.Close()
		stream, err := apiv1.NewWatchServiceClient(conn).Watch(w.ctx, &apiv1.WatchRequest{Kinds: []string{"tasks"}})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a watch of it by gRPC ends with %v", err)
		}
	})
}

// firstEvent returns the ID and the text of the first server-sent event.
func (w *walled) firstEvent(who, path string) (id, data string) {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	dial := w.net.From(who).Dial
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) }}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.HTTPAddr()+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	var text []string
	for lines.Scan() && lines.Text() != "" {
		if value, is := strings.CutPrefix(lines.Text(), "id: "); is {
			id = value
		}
		if value, is := strings.CutPrefix(lines.Text(), "data: "); is {
			text = append(text, value)
		}
	}
	data = strings.Join(text, "\n")
	if !json.Valid([]byte(data)) || response.Header.Get("Content-Type") != "text/event-stream" {
		w.t.Errorf("an event of type %s is %q", response.Header.Get("Content-Type"), data)
	}
	if _, err := cursorFrom(id); err != nil {
		w.t.Error(err)
	}
	return id, data
}
