package cli_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/direct"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/trust/ticket"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/version"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/logtail"
)

// person logs in another person with all rights, and returns that person's environment.
func (c *trusted) person(name string) []string {
	c.t.Helper()
	token := c.must("token", "create", "operator", "--principal", name)
	env := []string{"XDG_CONFIG_HOME=" + c.folder(name), "TENDER_MASTER=", "TENDER_TOKEN="}
	c.logIn(env, token)
	return env
}

// pass returns the pass of somebody who has logged in.
func (c *trusted) pass(env []string) *trust.Pass {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(strings.TrimPrefix(env[0], "XDG_CONFIG_HOME="), "tender", "contexts", "*.pem"))
	if err != nil || len(files) != 1 {
		c.t.Fatalf("the passes are %v, %v", files, err)
	}
	pass, err := trust.ReadPass(files[0])
	if err != nil {
		c.t.Fatal(err)
	}
	return pass
}

// operator returns the leader's service, called as somebody.
func (c *trusted) operator(as *trust.Pass) apiv1.OperatorServiceClient {
	c.t.Helper()
	conn, err := transport.Connect(c.masters[0], trust.NewHolder(as).Dialer(transport.DialTCP, trust.Master))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return apiv1.NewOperatorServiceClient(conn)
}

// ask makes a request to an agent as somebody, with a ticket.
func (c *trusted) ask(agent string, as *trust.Pass, word, method, path string) (int, string) {
	c.t.Helper()
	secure := logtail.Transport(trust.NewHolder(as).Dialer(transport.DialTCP, trust.Agent))
	defer secure.CloseIdleConnections()
	request, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+agent+path, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	trust.ShowTicket(request, word)
	answer, err := (&http.Client{Transport: secure}).Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestTicketsOpenTasksAtTheirAgents: an operator runs commands inside tasks and reads them. Somebody who may not is
// told which grant is missing. An agent answers only a ticket of the leader for this person, this agent and this
// request.
func TestTicketsOpenTasksAtTheirAgents(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	port := strconv.Itoa(freePort(t))
	agent := "127.0.0.1:" + port
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", port, "--resources", "cpus:2;mem:500;disk:100",
		"--join", c.must("token", "create", "agent"), "--master", c.masters[0])
	until(t, "an agent", func() bool { return len(get(t, c.env, "agents", "--state", "RUNNING").Items) == 1 })
	start(t, c.env, "run", "--name", "host", "--role", "eng", "--", "sh", "-c", "echo here > file; echo awake; exec sleep 1000").await("awake")
	for args, want := range map[string]string{"exec host -- cat file": "here", "logs host": "awake", "cp host:file -": "here"} {
		if got, stderr, _ := tender(t, c.env, strings.Fields(args)...); strings.TrimSpace(got) != want {
			t.Errorf("tender %s: %q, %q", args, got, stderr)
		}
	}
	view := get(t, c.env, "tasks").Items[0]
	task := api.TaskRef{Framework: api.FrameworkID(view.FrameworkID), Task: api.TaskID(view.ID)}
	file, agentID := "/v1/files/"+task.String()+"/file", api.AgentID(view.AgentID)

	vic := c.person("vic")
	c.must("grant", "vic", "view", "--role", "ops")
	c.must("grant", "vic", "exec", "--role", "ops")
	c.must("revoke", "vic", "admin")
	for _, call := range []string{"read-task", "exec"} {
		err := askForTicket(t, c.operator(c.pass(vic)), call, task)
		if api.KindOf(err) != api.Denied || !strings.Contains(err.Error(), "tender grant vic") || !strings.Contains(err.Error(), "--role eng") {
			t.Errorf("a viewer of another role asks for a ticket to %s: %v", call, err)
		}
	}
	if _, stderr, code := tender(t, vic, "logs", task.String()); code == 0 {
		t.Errorf("a viewer of another role reads the output: %q", stderr)
	}

	ann, theirs := c.pass(c.env), c.pass(vic)
	good := ticket.Ticket{For: ann.Identity(), Opens: rights.TicketToRead, Agent: agentID, Task: task}
	key, err := trust.ReadKey(c.folder("m1"))
	if err != nil {
		t.Fatal(err)
	}
	master, now := issue(t, key), time.Now()
	other := good
	other.Task.Task = "another"
	agents := good
	agents.Task = api.TaskRef{}
	for name, test := range map[string]struct {
		as     *trust.Pass
		word   string
		path   string
		code   int
		answer string
	}{
		"a ticket":                    {ann, sign(t, master, good, now), file, 200, "here"},
		"none":                        {ann, "", file, 403, "it takes a ticket of the leader"},
		"none, for the state":         {ann, "", "/v1/state", 403, "it takes a ticket of the leader"},
		"one for the agent":           {ann, sign(t, master, agents, now), "/v1/state", 200, string(task.Framework)},
		"one for a task, for all":     {ann, sign(t, master, good, now), "/v1/state", 403, "and not for the agent itself"},
		"an expired one":              {ann, sign(t, master, good, now.Add(-time.Hour)), file, 403, "the ticket ended at"},
		"one for another task":        {ann, sign(t, master, other, now), file, 403, "and not for task " + task.String()},
		"somebody else's":             {theirs, sign(t, master, good, now), file, 403, "and the connection is of " + theirs.Identity().String()},
		"one of another cluster":      {ann, sign(t, issue(t, trust.NewKey()), good, now), file, 403, "it is of cluster"},
		"one that he signs himself":   {ann, sign(t, ann, good, now), file, 403, "only masters give tickets"},
		"one to read, for a command":  {ann, sign(t, master, good, now), "/v1/exec/" + task.String(), 403, "is one to read"},
		"a word that is none":         {ann, "let-me-in", file, 403, "this is no ticket of a leader"},
		"metrics, which need no such": {ann, "", "/metrics", 200, "tender_agent_calls_denied_total"},
	} {
		method := http.MethodGet
		if strings.HasPrefix(test.path, "/v1/exec") {
			method = http.MethodPost
		}
		if code, text := c.ask(agent, test.as, test.word, method, test.path); code != test.code || !strings.Contains(text, test.answer) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	c.must("kill", "host")
	audit, err := os.ReadFile(filepath.Join(c.folder("a1"), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"argv":["cat","file"],"exit_code":0`, `"who":"person vic"`, `"result":"denied"`} {
		if !strings.Contains(string(audit), want) {
			t.Errorf("the agent's audit log has no %s:\n%s", want, audit)
		}
	}
}

// TestWhoIsRevokedOrGoneIsOut: a command and an output that somebody has opened at an agent end when that person is
// revoked, and no agent answers that person any more, also not after the agent was started again. An agent that was marked gone or removed ends, and no copy of its certificate lets it come back.
func TestWhoIsRevokedOrGoneIsOut(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	agents, ports := map[string]*proc{}, map[string]string{}
	for _, name := range []string{"a1", "a2"} {
		ports[name] = strconv.Itoa(freePort(t))
		agents[name] = launch(t, c.env, true, []string{"agent", "--data-dir", c.folder(name), "--http-port", ports[name], "--hostname", name,
			"--resources", "cpus:2;mem:500;disk:100", "--join", c.must("token", "create", "agent"), "--master", c.masters[0]})
	}
	until(t, "two agents", func() bool { return len(get(t, c.env, "agents", "--state", "RUNNING").Items) == 2 })
	start(t, c.env, "run", "--name", "host", "--", "sh", "-c", "echo awake; exec sleep 1000").await("awake")

	vic := c.person("vic")
	output := start(t, vic, "logs", "-f", "host")
	output.await("awake")
	command := start(t, vic, "exec", "host", "--", "sh", "-c", "echo inside; exec sleep 1000")
	command.await("inside")
	if _, stderr, code := tender(t, c.env, "revoke", "nope"); code != 1 || !strings.Contains(stderr, `no principal is called "nope"`) || strings.Contains(stderr, "--force") {
		t.Errorf("one that is not there can't be revoked: exit code %d: %s", code, stderr)
	}
	his := c.pass(vic)
	if code, text := c.ask("127.0.0.1:"+ports["a1"], his, "", http.MethodGet, "/metrics"); code != http.StatusOK {
		t.Errorf("the metrics of an agent, before: %d %s", code, text)
	}
	c.must("revoke", "vic", "--why", "he left", "--force")
	for name, one := range map[string]*proc{"logs": output, "exec": command} {
		if code := one.wait(); code == 0 || !strings.Contains(one.stderr.String(), "revoked") {
			t.Errorf("%s ends with exit code %d, %q", name, code, one.stderr.String())
		}
	}
	c.must("kill", "host")
	refusesHim := func(name string) func() bool {
		return func() bool {
			code, text := c.ask("127.0.0.1:"+ports[name], his, "", http.MethodGet, "/metrics")
			return code == http.StatusForbidden && strings.Contains(text, "revoked")
		}
	}
	until(t, "an agent that refuses its metrics", refusesHim("a1"))
	until(t, "another one", refusesHim("a2"))
	agents["a1"].signal(syscall.SIGKILL)
	agents["a1"].wait()
	agents["a1"] = launch(t, c.env, true, []string{"agent", "--data-dir", c.folder("a1"), "--http-port", ports["a1"], "--hostname", "a1",
		"--resources", "cpus:2;mem:500;disk:100", "--master", c.masters[0]})
	agents["a1"].await("registered")
	until(t, "the agent that was started again to refuse its metrics", refusesHim("a1"))
	aRevokedFrameworkEnds(t, c)

	for name, args := range map[string][]string{"a1": {"gone", "a1", "--force"}, "a2": {"remove", "a2", "--force"}} {
		stolen, err := trust.ReadPass(filepath.Join(c.folder(name), "certificate.pem"))
		if err != nil {
			t.Fatal(err)
		}
		c.must(args...)
		agents[name].await("its certificate counts no more")
		if code := agents[name].wait(); code == 0 {
			t.Errorf("agent %s ends as if all were well", name)
		}
		if _, err := os.Stat(filepath.Join(c.folder(name), "certificate.pem")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("agent %s keeps its certificate: %v", name, err)
		}
		err = c.renew(stolen)
		if api.KindOf(err) != api.Denied {
			t.Errorf("the certificate of agent %s is renewed: %v", name, err)
		}
		if err := c.register(stolen); api.KindOf(err) != api.Removed {
			t.Errorf("agent %s comes back by a copy of its certificate: %v", name, err)
		}
	}
}

// idle is a scheduler that signals when it has a session.
type idle struct{ in chan struct{} }

func (i idle) Subscribed(context.Context, *framework.Client) error { close(i.in); return nil }

func (i idle) Offers(context.Context, []api.Offer) []api.Answer { return nil }

func (i idle) Update(context.Context, api.Status) error { return nil }

// aRevokedFrameworkEnds: it ends with an error that programs can recognize, and its token does not let it come back.
func aRevokedFrameworkEnds(t *testing.T, c *trusted) {
	t.Helper()
	config := framework.Config{Masters: c.masters, Name: "spy", Token: c.must("token", "create", "framework", "--principal", "spy")}
	scheduler, ended := idle{make(chan struct{})}, make(chan error, 1)
	go func() { ended <- framework.Run(t.Context(), config, scheduler) }()
	select {
	case <-scheduler.in:
	case err := <-ended:
		t.Fatalf("it has ended before: %v", err)
	}
	c.must("revoke", "spy", "--why", "it leaked", "--force")
	for again := true; ; again = false { // first the one that runs, then the next one
		if err := <-ended; !errors.Is(err, framework.ErrRevoked) || !api.Is(err, api.Denied) || !strings.Contains(err.Error(), "it leaked") {
			t.Errorf("a framework whose principal was revoked ends with %v", err)
		}
		if !again {
			return
		}
		go func() { ended <- framework.Run(t.Context(), config, idle{make(chan struct{})}) }()
	}
}

// register registers a new agent with the name in the pass.
func (c *trusted) register(pass *trust.Pass) error {
	c.t.Helper()
	ctx, end := context.WithCancel(c.t.Context())
	defer end()
	stream, err := direct.Open[apiv1.AgentCalls, apiv1.AgentEvents](ctx, trust.NewHolder(pass).Dialer(transport.DialTCP, trust.Master), c.masters[0], api.MessageBytesMax)
	if err == nil {
		err = stream.Send(wire.AgentCallsToProto([]protocol.AgentCall{protocol.RegisterAgent{
			Version: version.String(), Agent: api.Agent{Hostname: "copy", Resources: api.Scalars(1, 32)}, Nonce: api.Nonce(pass.Identity().Name), BootID: "b",
		}}))
	}
	for err == nil {
		var message *apiv1.AgentEvents
		if message, err = stream.Recv(); err == nil && message.GetEvents()[0].GetRegistered() != nil {
			return nil // it was admitted
		}
	}
	return wire.Error(err)
}

// renew asks for another certificate in the name of the pass.
func (c *trusted) renew(pass *trust.Pass) error {
	c.t.Helper()
	conn, err := transport.Connect(c.masters[0], trust.NewHolder(pass).Dialer(transport.DialTCP, trust.Master))
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	request, err := pass.Request()
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err = apiv1.NewTrustServiceClient(conn).Sign(c.t.Context(), &apiv1.SignRequest{Request: request}); err != nil {
		return wire.Error(err)
	}
	return nil
}

func askForTicket(t *testing.T, operator apiv1.OperatorServiceClient, action string, task api.TaskRef) error {
	t.Helper()
	ask := operator.GetReadTicket
	if action == "exec" {
		ask = operator.GetExecTicket
	}
	answer, err := ask(t.Context(), &apiv1.TicketRequest{FrameworkId: string(task.Framework), TaskId: string(task.Task)})
	if err == nil {
		t.Fatalf("a ticket is given: %v", answer)
	}
	return wire.Error(err)
}

// issue makes a master's pass with the cluster's key.
func issue(t *testing.T, key trust.Key) *trust.Pass {
	t.Helper()
	authority, err := key.Authority()
	if err != nil {
		t.Fatal(err)
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Master, Name: "m1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

func sign(t *testing.T, by *trust.Pass, one ticket.Ticket, at time.Time) string {
	t.Helper()
	word, err := ticket.Sign(by, one, at)
	if err != nil {
		t.Fatal(err)
	}
	return word
}
