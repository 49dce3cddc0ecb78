package agent

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/containers"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/protocol"
)

// The agent shows what is on it as JSON, a folder in pages, and ranges of a file.
func TestLookingIntoAnAgent(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	config.Listener, config.Flags = loopback(t), map[string]string{"zone": "z1"}
	a := run(t, config)
	await(master, "registration", func(protocol.RegisterAgent) bool { return true })
	<-a.Ready()
	master.launch(command("t1", "echo 0123456789; exec sleep 1000"))
	master.launch(command("t2", "exit 3"))
	group := master.status("t1", api.TaskRunning)
	master.status("t2", api.TaskFailed)
	<-follow(t, overHTTP2(t), "http://"+a.Address()+"/v1/output/f1/t1?stdout=0&follow=1").up // it has printed
	read := func(path, span string) (string, int) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Address()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if span != "" {
			request.Header.Set("Range", span)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), response.StatusCode
	}
	var state core.Picture
	text, _ := read("/v1/state", "")
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	if state.Agent != group.Agent || !state.Registered || len(state.Executors) != 1 || state.Executors[0].PID == 0 || state.Executors[0].Phase != "running" {
		t.Errorf("state: %s", text)
	}
	if len(state.Tasks) == 0 || state.Tasks[0].Task != "t1" || state.Tasks[0].State != "RUNNING" || state.Tasks[0].Group == 0 {
		t.Errorf("state: %s", text)
	}
	var executors struct{ Items []core.PictureExecutor }
	text, _ = read("/v1/executors", "")
	if err := json.Unmarshal([]byte(text), &executors); err != nil || !slices.Equal(executors.Items, state.Executors) {
		t.Errorf("executors: %v %s", err, text)
	}
	var lived struct{ Items []containers.Container }
	text, _ = read("/v1/containers", "")
	if err := json.Unmarshal([]byte(text), &lived); err != nil || len(lived.Items) < 2 || lived.Items[0].PID != executors.Items[0].PID {
		t.Fatalf("containers: %v %s", err, text)
	}
	walled := a.walls.cells.Found()
	for _, one := range lived.Items {
		if limited := walled.Has("memory"); limited != (one.Used != nil && one.Used.Processes > 0 && strings.Contains(one.Cell, "f1@command")) {
			t.Errorf("limited %v: %s", limited, text)
		}
	}
	if first := lived.Items[1]; first.Task != "t1" || first.PID != state.Tasks[0].Group {
		t.Errorf("containers: %s", text)
	}
	if text, _ := read("/v1/flags", ""); !json.Valid([]byte(text)) || text == "" {
		t.Errorf("flags: %q", text)
	}
	if text, code := read("/v1/files/f1/t1/stdout", "bytes=3-5"); text != "345" || code != http.StatusPartialContent {
		t.Errorf("a range is %q, %d", text, code)
	}
	folder := filepath.Join(config.DataDir, "sandboxes/f1/command/tasks/t1")
	const hole = 1 << 20
	for _, name := range []string{"image", "stderr"} { // one is the task's own, of the other the head was given back to the disk
		file, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte("tail"), hole); err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
	if text, code := read("/v1/files/f1/t1/image", ""); text != strings.Repeat("\x00", hole)+"tail" || code != http.StatusOK {
		t.Errorf("%d bytes of a file with a hole were sent, %d", len(text), code)
	}
	if text, code := read("/v1/files/f1/t1/image", "bytes=3-5"); text != "\x00\x00\x00" || code != http.StatusPartialContent {
		t.Errorf("a range of a hole is %.20q, %d", text, code)
	}
	if text, code := read("/v1/files/f1/t1/stderr", ""); text != "tail" || code != http.StatusOK {
		t.Errorf("an output without its head is %.20q, %d", text, code)
	}
	if text, code := read("/v1/files/f1/t1/stderr", "bytes=3-5"); !strings.Contains(text, "begins at 1048576") || code != http.StatusBadRequest {
		t.Errorf("a range of the head that was given back is %.20q, %d", text, code)
	}
	for _, span := range []string{"bytes=1048577-", "bytes=-3"} {
		if text, code := read("/v1/files/f1/t1/stderr", span); text != "ail" || code != http.StatusPartialContent {
			t.Errorf("%s of an output without its head are %.20q, %d", span, text, code)
		}
	}
	if _, code := read("/v1/files/f1/t1/stderr", "bytes=1048580-"); code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range behind the end is answered by %d", code)
	}
	for _, name := range []string{"image", "stderr"} {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "stderr"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, _ := read("/v1/files/f1/t1/?limit=1", ""); text != page(t, text, "stderr", "stderr") {
		t.Errorf("the first page is %q", text)
	}
	if text, _ := read("/v1/files/f1/t1/?limit=1&page_token=stderr", ""); text != page(t, text, "stdout", "") {
		t.Errorf("the second page is %q", text)
	}
	for name, target := range map[string]string{"out": "/etc/passwd", "loop": "loop", "key": "../../../../../secret"} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
		if text, code := read("/v1/files/f1/t1/"+name, ""); code != http.StatusForbidden || !strings.Contains(text, "link out of the task's folder") {
			t.Errorf("a link to %s is answered by %d, %q", target, code, text)
		}
	}
	if text, code := read("/v1/files/f1/t1/stdout/x", ""); code != http.StatusNotFound {
		t.Errorf("a file below a file is answered by %d, %q", code, text)
	}
	if text, code := read("/v1/files/f1/t1/?limit=x", ""); code != http.StatusBadRequest {
		t.Errorf("a wrong limit is answered by %d, %q", code, text)
	}
}

// page checks that the text lists that one file and the token, and returns the text.
func page(t *testing.T, text, name, token string) string {
	t.Helper()
	var got struct {
		Items []struct{ Name string }
		Next  string `json:"next_page_token"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 1 || got.Items[0].Name != name || got.Next != token {
		return "another page"
	}
	return text
}

// The level of the log can be read and changed while the agent runs. The audit log says who changed it.
func TestLogLevel(t *testing.T) {
	master := newScript(t)
	config := testConfig(t, master.address)
	level, err := logging.NewLevel("info")
	if err != nil {
		t.Fatal(err)
	}
	config.Listener, config.LogLevel = loopback(t), level
	a := run(t, config)
	<-a.Ready()
	for _, one := range []struct {
		method, query, want string
		code                int
	}{
		{http.MethodGet, "", "{\"level\":\"info\"}\n", 200},
		{http.MethodPut, "?level=debug", "{\"level\":\"debug\"}\n", 200},
		{http.MethodPut, "?level=loud", "agent.log-level: invalid: log level \"loud\" is unknown; write debug, info, warn or error\n", 400},
		{http.MethodPut, "", "agent.log-level: invalid: log level \"\" is unknown; write debug, info, warn or error\n", 400},
		{http.MethodGet, "", "{\"level\":\"debug\"}\n", 200},
	} {
		request, err := http.NewRequestWithContext(t.Context(), one.method, "http://"+a.Address()+"/v1/log-level"+one.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil || response.Body.Close() != nil || response.StatusCode != one.code || string(text) != one.want {
			t.Errorf("%s %s: %d %q, %v", one.method, one.query, response.StatusCode, text, err)
		}
	}
	noted, err := os.ReadFile(filepath.Join(config.DataDir, "audit.log"))
	if err != nil || strings.Count(string(noted), "agent PUT /v1/log-level") != 3 || strings.Count(string(noted), `"result":"ok"`) != 1 {
		t.Errorf("%s, %v", noted, err)
	}
}
