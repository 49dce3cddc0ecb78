package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// granted makes a person who has only this grant.
func (c *trusted) granted(name string, grant ...string) []string {
	c.t.Helper()
	env := c.person(name)
	c.must(append([]string{"grant", name}, grant...)...)
	c.must("revoke", name, "admin")
	return env
}

// TestTicketsToExec: docs/security.md says who may run commands inside a task and change the level of an agent's log:
// "operate" or "exec" on it, or "run" for one's own tasks. Such a ticket opens only what it is for.
func TestTicketsToExec(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	port := strconv.Itoa(freePort(t))
	address := "127.0.0.1:" + port
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", port, "--hostname", "h1", "--resources", "cpus:2;mem:500;disk:100",
		"--join", c.must("token", "create", "agent"), "--master", c.masters[0])
	until(t, "an agent", func() bool { return len(get(t, c.env, "agents", "--state", "RUNNING").Items) == 1 })

	operates := c.granted("operates", "operate", "--role", "eng")
	execs := c.granted("execs", "exec", "--role", "eng")
	runs := c.granted("runs", "run", "--role", "eng")
	views := c.granted("views", "view")
	levels := c.granted("levels", "exec", "--agent", "h1")
	for name, env := range map[string][]string{"theirs": c.env, "own": runs} {
		start(t, env, "run", "--name", name, "--role", "eng", "--", "sh", "-c", "echo "+name+" > file; echo awake; exec sleep 1000").await("awake")
	}
	tasks := map[string]api.TaskRef{}
	for _, item := range get(t, c.env, "tasks").Items {
		tasks[strings.TrimSuffix(item.ID, ".0")] = api.TaskRef{Framework: api.FrameworkID(item.FrameworkID), Task: api.TaskID(item.ID)}
	}
	agent := get(t, c.env, "agents").Items[0].ID

	// With the command, which asks for its ticket itself.
	for _, story := range []struct {
		who  string
		env  []string
		task string
		says string // part of the refusal; "": it is admitted
	}{
		{"operates", operates, "theirs", ""},
		{"runs", runs, "own", ""},
		{"runs", runs, "theirs", "theirs"},
		{"views", views, "theirs", "it needs the grant 'operate' or 'exec'"},
		{"execs", execs, "own", "it needs the grant 'view' or 'list-tasks'"}, // to find the task by its name
	} {
		stdout, stderr, code := tender(t, story.env, "exec", tasks[story.task].String(), "--", "cat", "file")
		if in := code == 0 && strings.TrimSpace(stdout) == story.task; in != (story.says == "") || !in && !strings.Contains(stderr, story.says) {
			t.Errorf("%s inside %s: exit code %d, %q, %q", story.who, story.task, code, stdout, stderr)
		}
	}

	// With the tickets themselves.
	ticketFor := func(env []string, r *apiv1.TicketRequest) (string, error) {
		answer, err := c.operator(c.pass(env)).GetExecTicket(t.Context(), r)
		if err != nil {
			return "", wire.Error(err)
		}
		return answer.GetTicket(), nil
	}
	ofTask := &apiv1.TicketRequest{FrameworkId: string(tasks["theirs"].Framework), TaskId: string(tasks["theirs"].Task)}
	ofAgent := &apiv1.TicketRequest{AgentId: agent}
	for name, story := range map[string]struct {
		env    []string
		ask    *apiv1.TicketRequest
		denied string
	}{
		"a runner, for a task of somebody else": {runs, ofTask, "--role eng"},
		"a viewer, for a task":                  {views, ofTask, "it needs the grant 'operate' or 'exec'"},
		"a viewer, for the agent":               {views, ofAgent, "it needs the grant 'operate' or 'exec'"},
		"an operator of a role, for the agent":  {operates, ofAgent, "tender grant operates exec --agent " + agent},
		"a runner, for the agent":               {runs, ofAgent, ""},
	} {
		if _, err := ticketFor(story.env, story.ask); api.KindOf(err) != api.Denied || !strings.Contains(err.Error(), story.denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must := func(env []string, r *apiv1.TicketRequest) string {
		t.Helper()
		word, err := ticketFor(env, r)
		if err != nil {
			t.Fatal(err)
		}
		return word
	}
	must(levels, ofTask) // who may do it at the agent may do it in its tasks
	level, inside := "/v1/log-level?level=debug", "/v1/exec/"+tasks["theirs"].String()
	for name, story := range map[string]struct {
		env    []string
		word   string
		method string
		path   string
		code   int
		answer string
	}{
		"for the agent, its level":              {levels, must(levels, ofAgent), http.MethodPut, level, 200, `{"level":"debug"}`},
		"for the agent, a task there":           {levels, must(levels, ofAgent), http.MethodPost, inside, 403, "the ticket is for the agent itself, and not for task"},
		"for the agent, to look":                {levels, must(levels, ofAgent), http.MethodGet, "/v1/state", 403, "the ticket is one to exec, and it takes one to read"},
		"for the agent, by somebody else":       {views, must(levels, ofAgent), http.MethodPut, level, 403, "and the connection is of"},
		"for a task, the agent's level":         {execs, must(execs, ofTask), http.MethodPut, level, 403, "and not for the agent itself"},
		"for a task, its files":                 {execs, must(execs, ofTask), http.MethodGet, "/v1/files/" + tasks["theirs"].String() + "/file", 403, "it takes one to read"},
		"for a task, another":                   {execs, must(execs, ofTask), http.MethodPost, "/v1/exec/" + tasks["own"].String(), 403, "and not for task"},
		"for a task, and no session is wanted":  {execs, must(execs, ofTask), http.MethodPost, inside, 400, "Upgrade"},
		"none, for a command inside a task":     {execs, "", http.MethodPost, inside, 403, "it takes a ticket of the leader"},
		"none, for the level, by who may it":    {levels, "", http.MethodPut, level, 403, "it takes a ticket of the leader"},
		"none, for the level, by an admin even": {c.env, "", http.MethodPut, level, 403, "it takes a ticket of the leader"},
	} {
		if code, text := c.ask(address, c.pass(story.env), story.word, story.method, story.path); code != story.code || !strings.Contains(text, story.answer) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	audit, err := os.ReadFile(filepath.Join(c.folder("a1"), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"who":"person operates"`, `"who":"person levels"`, `agent PUT /v1/log-level`} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("the agent's audit log has no %s:\n%s", want, audit)
		}
	}
}
