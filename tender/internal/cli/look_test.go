package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// cluster answers like a leader, from lists.
type cluster struct {
	apiv1.UnimplementedOperatorServiceServer
	agents   []*apiv1.AgentView
	tasks    []*apiv1.TaskView
	pageMax  int
	index    uint64 // the registry's index, in answers to stale reads
	requests []string
	kill     *apiv1.KillTaskResponse
}

// page cuts a list into pages. A token is the number of the first item of the next page.
func page[T any](items []T, limit int32, token string, pageMax int) ([]T, string) {
	start, _ := strconv.Atoi(token)
	end := min(start+pageMax, len(items))
	if limit > 0 {
		end = min(end, start+int(limit))
	}
	if end == len(items) {
		return items[start:], ""
	}
	return items[start:end], strconv.Itoa(end)
}

func (c *cluster) GetCluster(context.Context, *apiv1.GetClusterRequest) (*apiv1.ClusterView, error) {
	return &apiv1.ClusterView{ClusterId: "cluster-1"}, nil
}

func (c *cluster) ListAgents(_ context.Context, r *apiv1.ListRequest) (*apiv1.ListAgentsResponse, error) {
	c.requests = append(c.requests, fmt.Sprintf("limit %d", r.GetLimit()))
	kept := slices.DeleteFunc(slices.Clone(c.agents), func(a *apiv1.AgentView) bool { return !strings.HasPrefix(a.GetId(), r.GetPrefix()) })
	items, next := page(kept, r.GetLimit(), r.GetPageToken(), c.pageMax)
	answer := &apiv1.ListAgentsResponse{Items: items, NextPageToken: next}
	if r.GetStale() {
		answer.AppliedIndex = c.index
	}
	return answer, nil
}

func (c *cluster) ListTasks(_ context.Context, r *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error) {
	kept := slices.DeleteFunc(slices.Clone(c.tasks), func(t *apiv1.TaskView) bool {
		matches := strings.HasPrefix(t.GetId(), r.GetPrefix()) || strings.HasPrefix(t.GetFrameworkId()+"/"+t.GetId(), r.GetPrefix())
		return !matches || !r.GetAll() && t.GetState() == "FAILED" || r.GetAgentId() != "" && r.GetAgentId() != t.GetAgentId()
	})
	items, next := page(kept, r.GetLimit(), r.GetPageToken(), c.pageMax)
	return &apiv1.ListTasksResponse{Items: items, NextPageToken: next}, nil
}

func (c *cluster) GetTask(_ context.Context, r *apiv1.GetTaskRequest) (*apiv1.TaskView, error) {
	for _, t := range c.tasks {
		if strings.HasPrefix(t.GetId(), r.GetTask()) || strings.HasPrefix(t.GetFrameworkId()+"/"+t.GetId(), r.GetTask()) {
			return t, nil
		}
	}
	return nil, wire.Status(api.E("task", api.NotFound, r.GetTask(), fmt.Errorf("no task is called %q", r.GetTask())))
}

func (c *cluster) ListMasters(context.Context, *apiv1.ListRequest) (*apiv1.ListMastersResponse, error) {
	return &apiv1.ListMastersResponse{Items: []*apiv1.MasterView{
		{Id: "m1", State: "leader", GrpcAddress: "127.0.0.1:5060", HttpAddress: "127.0.0.1:5050", RaftAddress: "127.0.0.1:5070",
			Version: "v1", Allocator: "fairshare", AppliedIndex: 17, Since: ago(time.Minute),
			Snapshot: &apiv1.SnapshotView{Made: ago(time.Hour), Index: 12, Bytes: 4096, Saved: ago(2 * time.Hour)}},
		{Id: "m2", State: "unreachable", GrpcAddress: "127.0.0.1:5061", Why: "no contact for 3s"},
	}}, nil
}

func (c *cluster) ListFrameworks(context.Context, *apiv1.ListRequest) (*apiv1.ListFrameworksResponse, error) {
	return &apiv1.ListFrameworksResponse{Items: []*apiv1.FrameworkView{{
		Id: "framework-1", Name: "web", State: "active", Since: ago(3 * time.Hour), Roles: []string{"eng/web", "ops"},
		Allocated: resources("cpus", 1.5), DominantShare: 1.0 / 3, Tasks: 2, Offers: 1, FailoverTimeout: durationpb.New(time.Minute),
		Demand: []*apiv1.DemandView{{Role: "ops", Resources: resources("cpus", 1), Count: 3, Constraint: "agent.zone == \"a\"",
			Preferred: []string{"agent-1", "agent-2"}, OnlyPreferred: true, Group: "blue",
			Spread: []*apiv1.Spread{{By: "attribute:rack"}, {By: "agent", Most: 2}}}},
		MinOffer: resources("cpus", 0.5), MaxOffer: resources("cpus", 2, "mem", 512), Revocable: true,
		Admitted: ago(4 * time.Hour),
	}}}, nil
}

func (c *cluster) ListOffers(context.Context, *apiv1.ListRequest) (*apiv1.ListOffersResponse, error) {
	return &apiv1.ListOffersResponse{Items: []*apiv1.OfferView{{
		Id: "offer-7-42", FrameworkId: "framework-1", FrameworkName: "web", AgentId: "agent-1", Hostname: "h1", Role: "ops",
		Resources: resources("cpus", 2.5, "mem", 3072), Since: ago(4 * time.Second), Expires: ago(-26 * time.Second),
	}}}, nil
}

func (c *cluster) ListExecutors(context.Context, *apiv1.ListRequest) (*apiv1.ListExecutorsResponse, error) {
	return &apiv1.ListExecutorsResponse{Items: []*apiv1.ExecutorView{
		{Id: "render", FrameworkId: "framework-1", FrameworkName: "web", AgentId: "agent-1", Hostname: "h1", Role: "ops", Resources: resources("cpus", 0.5), Tasks: 3,
			Usage: &apiv1.Usage{At: ago(time.Second), CpuMilli: 250, MemMilli: 64_000}},
		{Id: "command", FrameworkId: "framework-1", FrameworkName: "web", AgentId: "agent-10", Launching: true},
	}}, nil
}

func (c *cluster) ListOperations(context.Context, *apiv1.ListRequest) (*apiv1.ListOperationsResponse, error) {
	return &apiv1.ListOperationsResponse{Items: []*apiv1.OperationView{
		{Id: "r1", FrameworkId: "framework-1", FrameworkName: "web", AgentId: "agent-1", Hostname: "h1", Role: "ops", Kind: apiv1.OperationKind_RESERVE, State: "waiting", Resources: resources("cpus", 2)},
		{Id: "v1", FrameworkId: "framework-1", FrameworkName: "web", AgentId: "agent-1", Hostname: "h1", State: "refused", Why: "there is no such volume"},
	}}, nil
}

func (c *cluster) ListRoles(context.Context, *apiv1.ListRequest) (*apiv1.ListRolesResponse, error) {
	return &apiv1.ListRolesResponse{Items: []*apiv1.RoleView{
		{Role: "eng", Weight: 2, Priority: 1, Limit: resources("cpus", 8), DominantShare: 0.25, Frameworks: 1},
		{Role: "ops", Weight: 0.5},
	}}, nil
}

func (c *cluster) ListUsage(_ context.Context, r *apiv1.ListUsageRequest) (*apiv1.ListUsageResponse, error) {
	c.requests = append(c.requests, fmt.Sprintf("usage by %v", r.GetBy()))
	hour := now.Truncate(time.Hour)
	begin, end := timestamppb.New(hour), timestamppb.New(hour.Add(time.Hour))
	return &apiv1.ListUsageResponse{Items: []*apiv1.UsageView{
		{Begin: begin, End: end, Role: "eng", FrameworkId: "framework-1", FrameworkName: "web", Job: "shop",
			Allocated: map[string]float64{"cpus": 9000, "mem": 2 << 20, "gpus": 1800}, Used: map[string]float64{"cpus": 450.5, "mem": 1 << 20},
			Ended: map[string]uint64{"FINISHED": 12, "FAILED": 1}},
		{Begin: begin, End: end, Role: "(others)", FrameworkId: "(others)", FrameworkName: "(others)", Allocated: map[string]float64{"cpus": 60}},
	}}, nil
}

func (c *cluster) KillTask(_ context.Context, r *apiv1.KillTaskRequest) (*apiv1.KillTaskResponse, error) {
	c.requests = append(c.requests, fmt.Sprintf("kill %s %v", r.GetTask(), r.GetGrace().AsDuration()))
	return c.kill, nil
}

func (c *cluster) MarkAgent(_ context.Context, r *apiv1.MarkAgentRequest) (*apiv1.ActionResponse, error) {
	c.requests = append(c.requests, fmt.Sprintf("%v %s", r.GetAction(), r.GetAgentId()))
	return nil, refusal(apiv1.ErrorKind_NOT_FOUND, fmt.Sprintf("no agent is called %q", r.GetAgentId()))
}

func (c *cluster) SetMaintenance(_ context.Context, r *apiv1.SetMaintenanceRequest) (*apiv1.ActionResponse, error) {
	c.requests = append(c.requests, fmt.Sprintf("maintenance of %s", r.GetAgentIds()))
	return nil, refusal(apiv1.ErrorKind_NOT_FOUND, `no agent is called "agent-"`)
}

func (c *cluster) Reserve(_ context.Context, r *apiv1.ReserveRequest) (*apiv1.ActionResponse, error) {
	c.requests = append(c.requests, fmt.Sprintf("%v %s%s", r.GetAction(), r.GetAgentId(), r.GetVolume()))
	if r.GetAgentId() == "agent-2" {
		return &apiv1.ActionResponse{Subject: "agent-2"}, nil
	}
	return nil, refusal(apiv1.ErrorKind_NOT_FOUND, `no agent is called "agent-"`)
}

func (c *cluster) RemoveFramework(_ context.Context, r *apiv1.RemoveFrameworkRequest) (*apiv1.ActionResponse, error) {
	c.requests = append(c.requests, fmt.Sprintf("remove %s %v", r.GetFrameworkId(), r.GetForce()))
	switch {
	case r.GetFrameworkId() != "web":
		return nil, refusal(apiv1.ErrorKind_NOT_FOUND, `no framework is called "wbe"`)
	case !r.GetForce():
		return nil, refusal(apiv1.ErrorKind_UNAVAILABLE, "its scheduler is connected")
	}
	return &apiv1.ActionResponse{Subject: "web", Message: "framework framework-1 is removed; its 2 tasks are killed"}, nil
}

// refusal returns an error as a master sends it.
func refusal(kind apiv1.ErrorKind, message string) error {
	s, err := status.New(codes.FailedPrecondition, message).WithDetails(&apiv1.Error{Kind: kind, Message: message})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func (c *cluster) Explain(_ context.Context, r *apiv1.ExplainRequest) (*apiv1.ExplainResponse, error) {
	return &apiv1.ExplainResponse{
		FrameworkId: r.GetFrameworkId(), Framework: []string{"it is suppressed in role ops"},
		Agents: []*apiv1.ExplainedAgent{{AgentId: "agent-1", Hostname: "h1", Why: "filtered until 12s"}},
		Decisions: []*apiv1.ExplainedDecision{
			{At: ago(3 * time.Minute), Made: ago(4 * time.Minute), OfferId: "offer-1-1", AgentId: "agent-1", Role: "ops",
				Resources: resources("cpus", 4.0, "mem", 512.0), Outcome: "accepted", Why: "2 tasks launched", Launched: 2},
			{At: ago(2 * time.Second), Made: ago(3 * time.Second), OfferId: "offer-1-4", AgentId: "agent-1", Role: "ops",
				Resources: resources("cpus", 1.0), Outcome: "declined", Why: "filter for 5s"},
		},
	}, nil
}

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

func resources(pairs ...any) *structpb.Struct {
	fields := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		fields[pairs[i].(string)] = pairs[i+1]
	}
	s, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err)
	}
	return s
}

func small() *cluster {
	code := int32(3)
	return &cluster{
		pageMax: 2,
		agents: []*apiv1.AgentView{
			{Id: "agent-1", Hostname: "h1", State: "RUNNING", Since: ago(12 * time.Second), Total: resources("cpus", 4, "mem", 4096),
				Allocated: resources("cpus", 1.5, "mem", 1024), Free: resources("cpus", 2.5, "mem", 3072), Tasks: 1,
				Attributes: map[string]string{"rack": "r1"}, Address: "127.0.0.1:5051", Version: "v1", Admitted: ago(time.Hour),
				Occupied: resources("cpus", 1.75, "mem", 1024), Usage: &apiv1.Usage{At: ago(0), CpuMilli: 1250, MemMilli: 700_000}},
			{Id: "agent-10", Hostname: "h10", State: "DISCONNECTED", Since: ago(3 * time.Minute), Why: "its stream broke",
				Marks: []string{"draining"}, Total: resources("cpus", 8, "mem", 8192, "ports", "[31000-31009]"), Tasks: 1},
			{Id: "agent-2", Hostname: "h2", State: "BUSY", Since: ago(50 * time.Hour), Total: resources("cpus", 1)},
		},
		tasks: []*apiv1.TaskView{
			{Id: "hello.0", Name: "hello", FrameworkId: "framework-1", FrameworkName: "web", Role: "ops", State: "RUNNING", AgentId: "agent-1",
				Hostname: "h1", AgentAddress: "127.0.0.1:5051", ExecutorId: "command", Resources: resources("cpus", 1.5, "mem", 1024), Healthy: new(false),
				Launched: ago(20 * time.Second), Since: ago(19 * time.Second), Ports: map[string]uint32{"http": 31000},
				Command: &apiv1.Command{Argv: []string{"sh", "-c", "echo 'it'"}, Env: map[string]string{"A": "1"}}},
			{Id: "hello.1", FrameworkId: "framework-1", FrameworkName: "web", State: "FAILED", AgentId: "agent-10", ExitCode: &code,
				AgentAddress: "127.0.0.1:5061", ExecutorId: "render",
				Reason: "MEMORY_LIMIT", Message: "it used 1100 MB of 1024", Since: ago(time.Second)},
		},
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	s := serving(t, small())
	var text strings.Builder
	for _, args := range []string{
		"get masters", "get masters -o wide", "get agents", "get agents -o wide", "get agents agent-1", "get ag agent-2 -o name", "get agents --limit 1",
		"get frameworks", "get framework -o wide", "get tasks", "get tasks --all", "get tasks --all -o wide", "get tasks nothing",
		"get offers -o wide", "get executors", "get executors -o wide", "get operations --all", "get roles", "describe agent agent-1", "describe agent agent-10", "describe framework web",
		"describe task hello.0", "describe task framework-1/hello.1", "describe role eng", "describe master m1", "describe offer offer-7",
		"describe task hello", "describe agent nobody", "explain framework-1", "weight eng", "weight nobody",
		"usage", "usage --by period,framework,job", "usage --by role -o csv", "usage --by colour",
	} {
		stdout, stderr, code := s.run(t, strings.Fields(args)...)
		fmt.Fprintf(&text, "$ tender %s\n%s", args, stdout)
		if stderr != "" {
			fmt.Fprintf(&text, "stderr: %s", stderr)
		}
		if code != 0 {
			fmt.Fprintf(&text, "exit code %d\n", code)
		}
		text.WriteByte('\n')
	}
	golden(t, "tables.txt", text.String())
}

func TestJSONIsOneObjectWithTheItemsOfAllPages(t *testing.T) {
	c := small()
	stdout, stderr, code := serving(t, c).run(t, "get", "agents", "-o", "json")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %q", code, stderr)
	}
	var list struct {
		Items []struct {
			ID    string
			Total map[string]any
		}
		NextPageToken *string `json:"next_page_token"`
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 3 || list.Items[1].ID != "agent-10" || list.Items[1].Total["cpus"] != 8.0 || list.Items[1].Total["ports"] != "[31000-31009]" {
		t.Errorf("got %s", stdout)
	}
	if len(c.requests) != 2 {
		t.Errorf("%d pages were asked for: %v", len(c.requests), c.requests)
	}
	golden(t, "agents.json", stdout)
}

func TestAnEmptyListIsAnObjectToo(t *testing.T) {
	c := small()
	c.agents = nil
	stdout, _, code := serving(t, c).run(t, "get", "agents", "-o", "json")
	var list struct{ Items *[]any }
	if err := json.Unmarshal([]byte(stdout), &list); code != 0 || err != nil || list.Items == nil {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
}

func TestLimitAsksForNoMore(t *testing.T) {
	c := small()
	stdout, _, _ := serving(t, c).run(t, "get", "agents", "-o", "name", "--limit", "1")
	if stdout != "agent-1\n" || !slices.Equal(c.requests, []string{"limit 1"}) {
		t.Errorf("got %q by %v", stdout, c.requests)
	}
}

// TestAStaleReadSaysSo: people see it beside the table, and programs in the object.
func TestAStaleReadSaysSo(t *testing.T) {
	c := small()
	c.index = 17
	const says = "from the registry of one master, at index 17"
	if _, stderr, code := serving(t, c).run(t, "get", "agents", "--stale"); code != 0 || !strings.Contains(stderr, says) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if _, stderr, _ := serving(t, c).run(t, "get", "agents"); strings.Contains(stderr, "as the registry") {
		t.Errorf("the leader's own answer: %q", stderr)
	}
	stdout, _, _ := serving(t, c).run(t, "get", "agents", "--stale", "-o", "json")
	var list struct {
		Index json.RawMessage `json:"applied_index"`
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || strings.Trim(string(list.Index), `"`) != "17" {
		t.Errorf("%v: %s", err, stdout)
	}
}

func TestKillTellsByItsExitCode(t *testing.T) {
	for _, test := range []struct {
		answer *apiv1.KillTaskResponse
		code   int
		want   string
	}{
		{&apiv1.KillTaskResponse{FrameworkId: "f", TaskId: "t"}, 0, "f/t is being killed"},
		{&apiv1.KillTaskResponse{FrameworkId: "f", TaskId: "t", Already: "FINISHED"}, 0, "f/t had ended before: FINISHED"},
		{&apiv1.KillTaskResponse{FrameworkId: "f", TaskId: "t", Pending: true}, 3, "pending"},
	} {
		c := small()
		c.kill = test.answer
		stdout, stderr, code := serving(t, c).run(t, "kill", "t", "--grace", "3s")
		if code != test.code || !strings.Contains(stdout+stderr, test.want) || c.requests[0] != "kill t 3s" {
			t.Errorf("%v: exit code %d, %q %q, asked %v", test.answer, code, stdout, stderr, c.requests)
		}
	}
}

func TestTeardown(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		want string
		ask  string
	}{
		{"teardown web --force", 0, "web: framework framework-1 is removed; its 2 tasks are killed\n", "remove web true"},
		{"teardown web", 1, "its scheduler is connected", "remove web false"},
		{"teardown wbe --force", 1, `no framework is called "wbe"; 'tender get frameworks' lists them`, "remove wbe true"},
	} {
		c := small()
		stdout, stderr, code := serving(t, c).run(t, strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(stdout+stderr, test.want) || c.requests[0] != test.ask {
			t.Errorf("%s: exit code %d, %q %q, asked %v", test.args, code, stdout, stderr, c.requests)
		}
	}
}

// A command that changes something does not look for agents by the beginning of a name: the leader gets the words
// unchanged.
func TestChangesTakeWholeNames(t *testing.T) {
	for args, asked := range map[string]string{
		"drain agent-1":                              "DRAIN agent-1",
		"deactivate agent-":                          "DEACTIVATE agent-",
		"reactivate agent-":                          "REACTIVATE agent-",
		"gone agent- --force":                        "MARK_GONE agent-",
		"remove agent-":                              "REMOVE agent-",
		"maintenance set agent- --start 1h":          "maintenance of [agent-]",
		"maintenance clear agent-":                   "maintenance of [agent-]",
		"reserve agent- cpus:1 --role ops":           "RESERVE agent-",
		"unreserve agent- cpus:1 --role ops":         "UNRESERVE agent-",
		"volume create agent- v --size 1 --role ops": "CREATE_VOLUME agent-v",
		"volume destroy agent- v --role ops --force": "DESTROY_VOLUME agent-v",
	} {
		c := small() // it has agent-2 and agent-10
		stdout, stderr, code := serving(t, c).run(t, strings.Fields(args)...)
		if code != 1 || stdout != "" || !slices.Equal(c.requests, []string{asked}) {
			t.Errorf("%s: exit code %d, asked %q; %s%s", args, code, c.requests, stdout, stderr)
		}
		if want := "'tender get agents' lists them"; !strings.Contains(stderr, want) {
			t.Errorf("%s: %q does not say %q", args, stderr, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var text strings.Builder
	for _, args := range []string{
		"", "help exit-codes", "dev --help", "master --help", "agent --help", "run --help", "get --help", "describe --help", "logs --help", "kill --help", "teardown --help", "explain --help",
		"drain --help", "usage --help", "quota --help", "raft --help", "completion --help",
	} {
		stdout, stderr, code := (&shell{dial: nobody}).run(t, strings.Fields(args)...)
		if stderr != "" || code != 0 {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
		fmt.Fprintf(&text, "$ tender %s\n%s\n", args, stdout)
	}
	golden(t, "help.txt", text.String())
}

func TestCompletionKnowsTheCluster(t *testing.T) {
	for args, want := range map[string]string{
		"get ta":                           "tasks",
		"get agents agent-":                "agent-10\th10",
		"kill hel":                         "framework-1/hello.0",
		"get tasks --agent a":              "agent-2",
		"drain agent-2":                    "agent-2",
		"events --of ta":                   "task/",
		"events --of agent/agent-1":        "agent/agent-10\th10",
		"events --of task/framework-1/hel": "task/framework-1/hello.0",
		"events --of executor/framework-":  "executor/framework-1/render",
	} {
		stdout, _, code := serving(t, small()).run(t, append([]string{"__complete"}, strings.Fields(args)...)...)
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%q: exit code %d, %q", args, code, stdout)
		}
	}
	for _, sh := range []string{"bash", "zsh", "fish"} {
		if stdout, _, code := (&shell{}).run(t, "completion", sh); code != 0 || !strings.Contains(stdout, "tender") {
			t.Errorf("%s: exit code %d", sh, code)
		}
	}
}
