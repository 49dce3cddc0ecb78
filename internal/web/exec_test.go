package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/web"
)

// agentOf is an agent at which a command echoes what is typed, until that is "end".
func agentOf(t *testing.T, began chan<- frames.Command) func(context.Context, string) (net.Conn, error) {
	return func(context.Context, string) (net.Conn, error) {
		own, its := net.Pipe()
		go func() {
			defer own.Close()
			reader := bufio.NewReader(own)
			request, err := http.ReadRequest(reader)
			if err != nil || request.URL.Path != "/v1/exec/f1/t1" {
				t.Errorf("the agent is asked for %v, %v", request, err)
				return
			}
			_, _ = own.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + frames.Upgrade + "\r\n\r\n"))
			to := frames.NewWriter(own)
			for {
				kind, content, err := frames.Read(reader)
				if err != nil {
					close(began)
					return
				}
				var command frames.Command
				switch {
				case kind == frames.Order && json.Unmarshal(content, &command) == nil:
					began <- command
				case kind == frames.Stdin && string(content) == "end":
					_ = to.WriteJSON(frames.Ended, frames.End{Code: 7})
				case kind == frames.Stdin || kind == frames.Size:
					_ = to.Write(frames.Stdout, content)
				}
			}
		}()
		return its, nil
	}
}

// post sends what a page sends.
func post(handler http.Handler, viewer, path, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request.WithContext(web.WithViewer(request.Context(), web.Viewer{Name: viewer})))
	return w
}

var sessionPath = regexp.MustCompile(`/exec/\w+`)

// TestACommandInsideATask is asked for by a form, begins once, for whoever has asked for it, and ends with the page that
// shows it.
func TestACommandInsideATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := answering("x")
		cluster.answers["GetTask"] = func() (proto.Message, error) {
			return &apiv1.TaskView{Id: "t1", FrameworkId: "f1", State: "RUNNING", AgentId: "a1", AgentAddress: "a1:1"}, nil
		}
		began := make(chan frames.Command, 1)
		page := web.New(web.Config{Cluster: cluster, Agents: agentOf(t, began)})
		defer page.End()
		handler := page.Handler()
		asked := func() string {
			t.Helper()
			answer := post(handler, "ann", "/do/exec", "framework=f1&task=t1&command=top+-d1")
			if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "tender exec -it f1/t1 -- top -d1") {
				t.Fatalf("the form is answered with %d %s", answer.Code, answer.Body)
			}
			return sessionPath.FindString(answer.Body.String())
		}
		path := asked()
		reader, writer := newPipe()
		request := httptest.NewRequest(http.MethodPost, path+"?rows=24&cols=80", nil)
		go func() {
			handler.ServeHTTP(writer, request.WithContext(web.WithViewer(request.Context(), web.Viewer{Name: "ann"})))
			writer.Close()
		}()
		if command := <-began; len(command.Argv) != 2 || !command.TTY || command.Rows != 24 || command.Cols != 80 {
			t.Errorf("the command is %+v", command)
		}
		synctest.Wait()
		for _, refused := range []struct {
			viewer, path string
			code         int
		}{{"ann", path + "?rows=24&cols=80", http.StatusNotFound}, {"bob", path + "/keys", http.StatusNotFound}, {"ann", path + "/keys?rows=0&cols=80", http.StatusBadRequest}} {
			if answer := post(handler, refused.viewer, refused.path, "x"); answer.Code != refused.code {
				t.Errorf("%s at %s is answered with %d %s", refused.viewer, refused.path, answer.Code, answer.Body)
			}
		}
		read := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(reader, got); err != nil || string(got) != want {
				t.Errorf("the page is sent %q, %v, not %q", got, err, want)
			}
			synctest.Wait() // whoever typed has been answered
		}
		for _, typed := range []string{"ls\r", "\x03"} {
			go post(handler, "ann", path+"/keys", typed)
			read(typed)
		}
		go post(handler, "ann", path+"/keys?rows=50&cols=132", "")
		read("\x00\x32\x00\x84")
		go post(handler, "ann", path+"/keys", "end")
		read("\r\n[it has ended with exit code 7]\r\n")
		<-began // closed: the connection has ended
		if answer := post(handler, "ann", path+"/keys", "x"); answer.Code != http.StatusNotFound {
			t.Errorf("after its end a key is answered with %d", answer.Code)
		}

		path = asked() // and nobody shows it
		<-time.After(time.Minute)
		if answer := post(handler, "ann", path+"?rows=24&cols=80", ""); answer.Code != http.StatusNotFound {
			t.Errorf("what nobody has shown for a minute is answered with %d %s", answer.Code, answer.Body)
		}
		for range 8 {
			asked()
		}
		if answer := post(handler, "ann", "/do/exec", "framework=f1&task=t1"); answer.Code != http.StatusTooManyRequests {
			t.Errorf("one command too many is answered with %d %s", answer.Code, answer.Body)
		}
		if answer := post(handler, "bob", "/do/exec", "framework=f1&task=t1"); answer.Code != http.StatusOK {
			t.Errorf("another person's command is answered with %d %s", answer.Code, answer.Body)
		}
		<-time.After(time.Minute)
	})
}
