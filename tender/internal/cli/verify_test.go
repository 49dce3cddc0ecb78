package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/internal/verify"
	"github.com/tenderhq/tender/tender/internal/cli"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

// liars stand between `tender verify` and some masters and agents of a real cluster, and change what these say.
type liars struct {
	t     *testing.T
	front map[string]string // by the true address: where the liar listens
}

func (l *liars) dial(ctx context.Context, address string) (net.Conn, error) {
	if front := l.front[address]; front != "" {
		address = front
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// verify runs the command once.
func (l *liars) verify(args ...string) (stdout, stderr string, code int) {
	return l.tender(append([]string{"verify"}, args...)...)
}

// tender runs a command that meets the liars.
func (l *liars) tender(args ...string) (stdout, stderr string, code int) {
	var out, said bytes.Buffer
	app := &cli.App{Caller: caller.Caller{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said, Now: time.Now, Dial: l.dial,
		Lookup: func(string) (string, bool) { return "", false },
	}}
	code = app.Run(l.t.Context(), args)
	return out.String(), said.String(), code
}

// picture is what an agent says of itself.
type picture map[string]any

// list returns a list of the picture, as objects.
func (p picture) list(name string) (all []map[string]any) {
	for _, item := range p[name].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

// behindAgent makes an agent say what lie returns instead of the truth.
func (l *liars) behindAgent(address string, lie func(picture) picture) {
	l.t.Helper()
	listener := listening(l.t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := http.Get("http://" + address + r.URL.Path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		var truth picture
		if err := json.NewDecoder(response.Body).Decode(&truth); err != nil {
			l.t.Error(err)
		}
		if answer := lie(truth); answer == nil {
			http.Error(w, "the agent is stopping", http.StatusServiceUnavailable)
		} else if err := json.NewEncoder(w).Encode(answer); err != nil {
			l.t.Error(err)
		}
	})}
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	l.t.Cleanup(func() { server.Close() })
	l.front[address] = listener.Addr().String()
}

// behindMaster makes a master say that its registry has another hash, and that it stands in another folder.
func (l *liars) behindMaster(address string) {
	l.t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		l.t.Fatal(err)
	}
	listener, server := listening(l.t), grpc.NewServer()
	apiv1.RegisterOperatorServiceServer(server, clusterOf{master: apiv1.NewOperatorServiceClient(conn)})
	apiv1.RegisterRaftServiceServer(server, anotherHash{master: apiv1.NewRaftServiceClient(conn)})
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	l.t.Cleanup(func() { server.Stop(); conn.Close() })
	l.front[address] = listener.Addr().String()
}

type clusterOf struct {
	apiv1.UnimplementedOperatorServiceServer
	master apiv1.OperatorServiceClient
}

func (c clusterOf) GetCluster(ctx context.Context, r *apiv1.GetClusterRequest) (*apiv1.ClusterView, error) {
	return c.master.GetCluster(ctx, r)
}

type anotherHash struct {
	apiv1.UnimplementedRaftServiceServer
	master apiv1.RaftServiceClient
}

func (a anotherHash) StateHash(ctx context.Context, r *apiv1.StateHashRequest) (*apiv1.StateHashResponse, error) {
	answer, err := a.master.StateHash(ctx, r)
	if err == nil {
		answer.Hash, answer.Incarnation = strings.Repeat("0", len(answer.Hash)), "of-old"
	}
	return answer, err
}

func listening(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// keeper is a framework that keeps all it is offered.
type keeper struct{}

func (keeper) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	for _, offer := range offers {
		answers = append(answers, api.Keep(offer))
	}
	return answers
}

func (keeper) Update(context.Context, api.Status) error { return nil }

// keepOffers runs such a framework until the test ends.
func keepOffers(t *testing.T, d *devCluster) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- framework.Run(ctx, framework.Config{Masters: []string{d.Masters[0].GRPC, d.Masters[1].GRPC, d.Masters[2].GRPC}, Name: "keeper", TeardownAtEnd: true}, keeper{})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the framework ended with %v", err)
		}
	})
}

// TestVerify: on a real cluster with tasks, a volume and a reservation all is well, by the command and by its exit code.
// Each break that is made by hand is named, and nothing else; an agent that does not answer is not well either (R63).
func TestVerify(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--insecure", "--masters", "3", "--agents", "2")
	master := func(i int) string { return d.Masters[i].GRPC }
	l := &liars{t: t, front: map[string]string{}}
	masters := []string{"--master", master(0) + "," + master(1) + "," + master(2)}
	must := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := tender(t, d.env, args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	agents := get(t, d.env, "agents").Items
	must("reserve", agents[0].ID, "disk:20", "--role", "eng")
	must("volume", "create", agents[0].ID, "v1", "--role", "eng", "--size", "10")
	ref := strings.TrimSpace(must("run", "--detach", "--cpus", "0.1", "--mem", "32", "--", "sleep", "1000"))
	until(t, "the task runs", func() bool { return len(get(t, d.env, "tasks", "--state", "RUNNING").Items) == 1 })
	on := get(t, d.env, "tasks").Items[0].AgentID
	where := map[string]string{} // by agent: its HTTP address
	for _, a := range d.Agents {
		where[a.ID] = a.HTTP
	}
	other := agents[0].ID
	if other == on {
		other = agents[1].ID
	}

	keepOffers(t, d)
	until(t, "offers that somebody keeps", func() bool { return len(get(t, d.env, "offers").Items) == 2 })

	stdout, stderr, code := l.verify(masters...)
	if code != 0 || !strings.Contains(stdout, "3 masters, 2 agents, 2 frameworks, 1 task, ") || !strings.HasSuffix(stdout, ": all is well.\n") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	owner, _, _ := strings.Cut(ref, "/")
	task := map[string]any{"framework_id": owner, "id": "never", "state": "RUNNING", "resources": "", "executor_id": "x"}
	copied := func() map[string]any {
		more := map[string]any{}
		for key, value := range task {
			more[key] = value
		}
		more["id"] = strings.Split(ref, "/")[1]
		return more
	}
	judge := func() (verdict verdict, code int) {
		t.Helper()
		stdout, stderr, code := l.verify(append([]string{"--wait", "1s", "-o", "json"}, masters...)...)
		if err := json.Unmarshal([]byte(stdout), &verdict); err != nil {
			t.Fatalf("exit code %d: %v: %s%s", code, err, stdout, stderr)
		}
		return verdict, code
	}
	agent, held := "agent "+other, "R25 agent "+on+" is booked with * in use, and its tasks and executors hold *"
	for name, test := range map[string]struct {
		who  string
		lie  func(picture) picture
		want []string // all that is found, * for anything
	}{
		"a task is lost": {on, func(p picture) picture { p["tasks"] = []any{}; return p },
			[]string{held, "promise 7 task " + ref + " is RUNNING on agent " + on + " as the leader says, and the agent does not have it"}},
		"a state differs": {on, func(p picture) picture { p.list("tasks")[0]["state"] = "KILLING"; return p },
			[]string{"promise 7 task " + ref + " is RUNNING as the leader says, and KILLING as agent " + on + " says"}},
		"a task is larger": {on, func(p picture) picture { p.list("tasks")[0]["resources"] = "cpus:0.2;mem:32"; return p },
			[]string{held, "R25 task " + ref + " is booked with cpus:0.1;mem:32, and agent " + on + " gives it cpus:0.2;mem:32"}},
		"an executor too many": {other, func(p picture) picture {
			p["executors"] = append(p["executors"].([]any), map[string]any{"framework_id": "framework-77", "id": "x", "resources": ""})
			return p
		}, []string{"R21 executor framework-77/x is on " + agent + ", and its framework is removed or nobody knows it"}},
		"a task nobody knows": {other, func(p picture) picture { p["tasks"] = []any{task}; return p },
			[]string{"promise 7 task " + owner + "/never is RUNNING on " + agent + ", and the leader does not know it"}},
		"a task twice": {other, func(p picture) picture { p["tasks"] = []any{copied()}; return p },
			[]string{"R9 task " + ref + " is on agent " + on + " as the leader says, and RUNNING on " + agent, "R9 task " + ref + " is on agents * at once"}},
		"a volume is lost": {agents[0].ID, func(p picture) picture { p["volumes"] = []any{}; return p },
			[]string{"R22 agent " + agents[0].ID + " does not have volume v1, which is booked there"}},
		"an earlier volume": {agents[0].ID, func(p picture) picture { p.list("volumes")[0]["generation"] = 77; return p },
			[]string{"R22 agent " + agents[0].ID + " has generation 77 of volume v1, and generation 1 is booked there"}},
		"a volume too many": {agents[1].ID, func(p picture) picture { p["volumes"] = []any{map[string]any{"id": "v7"}}; return p },
			[]string{"R22 agent " + agents[1].ID + " has volume v7, of which the leader does not know"}},
		"another agent": {other, func(p picture) picture { p["agent"] = "agent-99"; return p },
			[]string{"R7 " + agent + " is expected at *, where agent agent-99 answers"}},
		"no session": {other, func(p picture) picture { p["registered"] = false; return p },
			[]string{"R30 " + agent + " is RUNNING, and says itself that it is not registered"}},
		"another size": {other, func(p picture) picture { p["resources"] = "cpus:1000;mem:1"; return p },
			[]string{"R25 " + agent + " is booked with *, and has cpus:1000;mem:1"}},
	} {
		l.front = map[string]string{}
		l.behindAgent(where[test.who], test.lie)
		if said, code := judge(); code != 1 || !said.are(test.want) {
			t.Errorf("%s: exit code %d; want\n%q, got\n%q", name, code, test.want, said.broken())
		}
	}

	l.front = map[string]string{}
	l.behindAgent(where[other], func(picture) picture { return nil })
	if said, code := judge(); code != 3 || !said.are(nil) || len(said.Blind) != 1 || said.Blind[0].What != agent || said.Blind[0].Why != "the agent is stopping" {
		t.Errorf("an agent that does not answer: exit code %d: %q, not looked at %v", code, said.broken(), said.Blind)
	}
	l.front = map[string]string{}
	l.behindMaster(master(1))
	if said, code := judge(); code != 1 || !said.are([]string{
		"R51 master * answers from the folder of-old, and the quorum counts the folder *", "promise 5 master * keeps another registry than master * at the same place of the log",
	}) {
		t.Errorf("a master that is another one: exit code %d: %q", code, said.broken())
	}

	// Nobody lies: the data of a volume is really gone.
	l.front = map[string]string{}
	folders, err := filepath.Glob(filepath.Join(d.dir, "*", "volumes", "v1"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("the folder of v1: %v %v", folders, err)
	}
	if err := os.Rename(folders[0], folders[0]+".away"); err != nil {
		t.Fatal(err)
	}
	if said, code := judge(); code != 1 || !said.are([]string{"R22 agent " + agents[0].ID + " has volume v1, and no folder with its data"}) {
		t.Errorf("a volume's folder is removed: exit code %d: %q", code, said.broken())
	}
	if err := os.Rename(folders[0]+".away", folders[0]); err != nil {
		t.Fatal(err)
	}
	if said, code := judge(); code != 0 || !said.Well {
		t.Errorf("at the end: exit code %d: %q", code, said.broken())
	}
}

// verdict is what `tender verify -o json` says.
type verdict struct {
	Well   bool
	Broken []verify.Finding
	Blind  []verify.Unseen `json:"not_looked_at"`
}

// broken returns all that was found, each with its rule.
func (v verdict) broken() (all []string) {
	for _, f := range v.Broken {
		all = append(all, f.Rule+" "+f.What+" "+f.Wrong)
	}
	return all
}

// are says whether exactly that was found, in which * stands for anything, and each since a moment of today.
func (v verdict) are(want []string) bool {
	found := v.broken()
	for _, pattern := range want {
		like := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".+") + "$")
		at := slices.IndexFunc(found, like.MatchString)
		if at < 0 || time.Since(v.Broken[at].Since) > time.Hour {
			return false
		}
	}
	return len(found) == len(want)
}

// TestVerifyTakesTheRightToSeeAll: who may see a part only is told so, because sums of a part say nothing. In a cluster
// with certificates agents are shown tickets.
func TestVerifyTakesTheRightToSeeAll(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	start(t, c.env, "agent", "--data-dir", c.folder("a1"), "--http-port", strconv.Itoa(freePort(t)), "--hostname", "h1", "--resources", "cpus:2;mem:500",
		"--join", c.must("token", "create", "agent"), "--master", c.masters[0])
	until(t, "an agent", func() bool { return len(get(t, c.env, "agents", "--state", "RUNNING").Items) == 1 })
	part := c.granted("part", "view", "--role", "eng")
	if _, stderr, code := tender(t, part, "verify"); code != 1 || !strings.Contains(stderr, "view") {
		t.Errorf("a viewer of a role: exit code %d: %s", code, stderr)
	}
	all := c.granted("all", "view")
	if stdout, stderr, code := tender(t, all, "verify"); code != 0 {
		t.Errorf("a viewer: exit code %d: %s%s", code, stdout, stderr)
	}
}
