package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/mesos/codec"
	agentv1 "github.com/tenderhq/tender/internal/mesos/v1/agent"
)

// TestMesosExec: a tool of Mesos runs a command inside a task, as a container nested in the task's: what it types the
// command reads, what the command says it hears, and how it has ended it may ask.
func TestMesosExec(t *testing.T) {
	d := startDev(t)
	port, gate := fmt.Sprint(freePort(t)), filepath.Join(t.TempDir(), "gate")
	start(t, append(d.env, "TENDER_TOKEN="+mint(t, d)), "mesos", "--open", "--port", "0", "--agent-port", port).await("find their master at")
	if _, stderr, code := tender(t, d.env, "run", "--detach", "--name", "host", "--env", "WHO=task", "--", "sh", "-c", "until test -e "+gate+"; do sleep 0.01; done"); code != 0 {
		t.Fatal(stderr)
	}
	await := func(state string) {
		until(t, "the task", func() bool {
			list := get(t, d.env, "tasks")
			return len(list.Items) == 1 && list.Items[0].State == state
		})
	}
	await("RUNNING")
	post := func(body, kind, accept string) *http.Response {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:"+port+"/api/v1", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", kind)
		request.Header.Set("Accept", accept)
		request.Header.Set("Message-Accept", "application/json")
		request.Header.Set("Message-Content-Type", "application/json")
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	const id = `"container_id":{"value":"c1","parent":{"value":"framework-1/host.0"}}`
	launched := post(`{"type":"LAUNCH_NESTED_CONTAINER_SESSION","launch_nested_container_session":{`+id+`,
		"command":{"value":"echo $WHO $MORE; read line; echo got $line; exit 7","environment":{"variables":[{"name":"MORE","value":"more"}]}}}}`, "application/json", "application/recordio")
	defer launched.Body.Close()
	if launched.StatusCode != http.StatusOK || launched.Header.Get("Content-Type") != "application/recordio" {
		text, _ := io.ReadAll(launched.Body)
		t.Fatalf("%s %s", launched.Status, text)
	}
	records := codec.NewRecordReader(launched.Body, 1<<20)
	hear := func() string {
		record, err := records.Next()
		if err != nil {
			return err.Error()
		}
		said := new(agentv1.ProcessIO)
		if err := codec.JSON.Unmarshal(record, said); err != nil {
			t.Fatal(err)
		}
		return string(said.GetData().GetData())
	}
	if said := hear(); said != "task more\n" {
		t.Fatalf("it says %q", said)
	}
	attach := []string{
		`{"type":"ATTACH_CONTAINER_INPUT","attach_container_input":{"type":"CONTAINER_ID",` + id + `}}`,
		`{"type":"ATTACH_CONTAINER_INPUT","attach_container_input":{"type":"PROCESS_IO","process_io":{"type":"DATA","data":{"type":"STDIN","data":"aGVsbG8K"}}}}`,
	}
	for _, records := range [][]string{attach[:1], attach} { // Mesos's own CLI tries whether it can attach, and then attaches
		var typed bytes.Buffer
		for _, record := range records {
			if err := codec.WriteRecord(&typed, []byte(record)); err != nil {
				t.Fatal(err)
			}
		}
		answered := post(typed.String(), "application/recordio", "application/json")
		answered.Body.Close()
		if answered.StatusCode != http.StatusOK {
			t.Errorf("what is typed is answered %s", answered.Status)
		}
	}
	if said := hear(); said != "got hello\n" {
		t.Errorf("it says %q", said)
	}
	if said := hear(); said != "EOF" {
		t.Errorf("it ends with %q", said)
	}
	for _, asked := range []struct {
		body string
		code int
		says string
	}{
		{`{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{` + id + `}}`, 200, `{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{"exit_status":1792}}`},
		{`{"type":"KILL_NESTED_CONTAINER","kill_nested_container":{` + id + `}}`, 200, ""},
		{`{"type":"REMOVE_NESTED_CONTAINER","remove_nested_container":{` + id + `}}`, 200, ""},
		{`{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{` + id + `}}`, 404, "cannot be found"},
	} {
		reply := post(asked.body, "application/json", "application/json")
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != asked.code || !strings.Contains(string(text), asked.says) {
			t.Errorf("%s: %s %s, %v", asked.body, reply.Status, text, err)
		}
	}
	const aside = `"container_id":{"value":"c2","parent":{"value":"framework-1/host.0"}}`
	const another = `"container_id":{"value":"c3","parent":{"value":"framework-1/host.0"}}`
	for _, asked := range []struct {
		body string
		code int
		says string
	}{
		{`{"type":"LAUNCH_NESTED_CONTAINER","launch_nested_container":{` + aside + `,"command":{"value":"echo $WHO; exit 3"}}}`, 200, ""},
		{`{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{` + aside + `}}`, 200, `"exit_status":768`},
		{`{"type":"LAUNCH_CONTAINER","launch_container":{` + another + `,"command":{"value":"exec sleep 1000"}}}`, 200, ""},
		{`{"type":"REMOVE_CONTAINER","remove_container":{` + another + `}}`, 500, "has not terminated"},
		{`{"type":"KILL_CONTAINER","kill_container":{` + another + `}}`, 200, ""},
		{`{"type":"WAIT_CONTAINER","wait_container":{` + another + `}}`, 200, `"exit_status":9`},
		{`{"type":"REMOVE_CONTAINER","remove_container":{` + another + `}}`, 200, ""},
		{`{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{"value":"alone"}}}`, 501, "launch a task"},
		{`{"type":"LAUNCH_NESTED_CONTAINER","launch_nested_container":{"container_id":{"value":"../x","parent":{"value":"framework-1/host.0"}}}}`, 400, "invalid"},
	} {
		reply := post(asked.body, "application/json", "application/json")
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != asked.code || !strings.Contains(string(text), asked.says) {
			t.Errorf("%s: %s %s, %v", asked.body, reply.Status, text, err)
		}
	}
	if said, stderr, _ := tender(t, d.env, "cp", "framework-1/host.0:containers/c2/stdout", "-"); said != "task\n" {
		t.Errorf("the nested container has said %q, %s", said, stderr)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await("FINISHED") // dev ends sooner without it
}

// mint makes a token of an operator.
func mint(t *testing.T, d *devCluster) string {
	t.Helper()
	out, stderr, code := tender(t, d.env, "token", "create", "operator", "--principal", "eve")
	if code != 0 {
		t.Fatal(stderr)
	}
	return strings.TrimSpace(out)
}
