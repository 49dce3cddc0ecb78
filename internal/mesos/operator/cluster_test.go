package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/wire"
)

// cluster is a cluster as one caller sees it, from a test.
type cluster struct {
	apiv1.OperatorServiceClient
	said  func(format string, args ...any)
	fails error
	news  chan *apiv1.WatchResponse
	agent net.Listener // answers for the files of tasks
	shut  bool
}

func (c *cluster) Operator() apiv1.OperatorServiceClient { return c }
func (c *cluster) Close() error                          { c.shut = true; return nil }

func (c *cluster) Watch(ctx context.Context, request *apiv1.WatchRequest) iter.Seq2[*apiv1.WatchResponse, error] {
	return func(yield func(*apiv1.WatchResponse, error) bool) {
		if slices.Contains(request.GetKinds(), "offer") { // a snapshot, in two parts
			first, second := halves()
			if yield(first, c.fails) {
				yield(second, nil)
			}
			return
		}
		for {
			select {
			case response, open := <-c.news:
				if !open {
					yield(nil, api.E("watch", api.Unavailable, "", errors.New("no master answers")))
					return
				}
				if !yield(response, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (c *cluster) ReadTicket(_ context.Context, task api.TaskRef, agent api.AgentID) (string, time.Duration, error) {
	return fmt.Sprintf("ticket for %v on %s", task, agent), time.Minute, nil
}

func (c *cluster) ExecTicket(context.Context, api.TaskRef, api.AgentID) (string, error) {
	return "exec", nil
}

func (c *cluster) DialAgent(ctx context.Context, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", c.agent.Addr().String())
}

var at = timestamppb.New(time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC))

func amount(text string) *structpb.Struct {
	return wire.ResourcesStruct(api.MustParseResources(text))
}

func agentViews() []*apiv1.AgentView {
	return []*apiv1.AgentView{
		{
			Id: "agent-1", Hostname: "host-1", State: "RUNNING", Admitted: at, Address: "10.0.0.1:5061", Region: "eu", Zone: "a",
			Total:     amount("cpus:4;mem:1024;ports:[31000-31009];disk(web,dynamic,volume=v1):10"),
			Allocated: amount("cpus:1;mem:32;ports:[31000-31000]"), Offered: amount("cpus:1"), Attributes: map[string]string{"rack": "r1", "slots": "2"},
			Maintenance: &apiv1.Window{Start: at, Duration: durationpb.New(time.Hour)},
		},
		{Id: "agent-2", Hostname: "host-2", State: "BUSY", Marks: []string{"draining", "drained"}, Admitted: at, Address: "10.0.0.2:5061", Total: amount("cpus:2")},
		{Id: "agent-3", Hostname: "host-3", State: "DISCONNECTED", Admitted: at, Total: amount("cpus:2")},
		{Id: "agent-4", Hostname: "host-4", State: "TOMBSTONE", Admitted: at, Total: amount("cpus:2")},
		{Id: "agent-5", Hostname: "host-5", State: "RUNNING", Marks: []string{"gone"}, Admitted: at, Total: amount("cpus:2")},
	}
}

func frameworkViews() []*apiv1.FrameworkView {
	return []*apiv1.FrameworkView{
		{
			Id: "framework-1", Name: "old", State: "active", Principal: "ann", Roles: []string{"default", "web"}, Admitted: at, Allocated: amount("cpus:1;mem:32"),
			Offered: amount("cpus:1"), FailoverTimeout: durationpb.New(time.Minute), Labels: map[string]string{"k": "v"}, Endpoints: map[string]string{"webui": "http://ui"},
		},
		{Id: "framework-2", Name: "gone", State: "removed", Roles: []string{"default"}, Admitted: at, Since: at},
	}
}

func taskViews() []*apiv1.TaskView {
	code, yes := int32(3), true
	return []*apiv1.TaskView{
		{
			Id: "my%20task", FrameworkId: "framework-1", Name: "my task", Role: "default", State: "RUNNING", AgentId: "agent-1", Hostname: "10.0.0.1",
			AgentAddress: "10.0.0.1:5061", ExecutorId: "old", Resources: amount("cpus:1;mem:32;ports:[31000-31000]"), Launched: at, Since: at, Healthy: &yes,
			Labels: map[string]string{"a": "b"}, Ports: map[string]uint32{"http": 31000},
		},
		{
			Id: "job", FrameworkId: "framework-1", Name: "job", Role: "web", State: "FAILED", AgentId: "agent-1", Hostname: "10.0.0.1", AgentAddress: "10.0.0.1:5061",
			ExecutorId: "command", Resources: amount("cpus:1"), Launched: at, Since: at, ExitCode: &code, Image: "alpine:3", Command: &apiv1.Command{User: "bob"},
		},
		{Id: "lost", FrameworkId: "framework-1", Name: "lost", Role: "web", State: "UNREACHABLE", AgentId: "agent-4", ExecutorId: "command", Launched: at, Since: at},
	}
}

// page shows lists in pages of two.
func page[Item any](all []Item, token string) (items []Item, next string) {
	var from int
	_, _ = fmt.Sscan(token, &from)
	to := min(from+2, len(all))
	if to < len(all) {
		next = fmt.Sprint(to)
	}
	return all[from:to], next
}

func (c *cluster) ListAgents(_ context.Context, r *apiv1.ListRequest, _ ...grpc.CallOption) (*apiv1.ListAgentsResponse, error) {
	items, next := page(agentViews(), r.GetPageToken())
	return &apiv1.ListAgentsResponse{Items: items, NextPageToken: next}, c.fails
}

func (c *cluster) ListFrameworks(_ context.Context, r *apiv1.ListRequest, _ ...grpc.CallOption) (*apiv1.ListFrameworksResponse, error) {
	items, next := page(frameworkViews(), r.GetPageToken())
	return &apiv1.ListFrameworksResponse{Items: items, NextPageToken: next}, c.fails
}

func (c *cluster) ListTasks(_ context.Context, r *apiv1.ListTasksRequest, _ ...grpc.CallOption) (*apiv1.ListTasksResponse, error) {
	var all []*apiv1.TaskView
	for _, t := range taskViews() {
		if (r.GetAgentId() == "" || r.GetAgentId() == t.GetAgentId()) && (r.GetFrameworkId() == "" || r.GetFrameworkId() == t.GetFrameworkId()) {
			all = append(all, t)
		}
	}
	items, next := page(all, r.GetPageToken())
	return &apiv1.ListTasksResponse{Items: items, NextPageToken: next}, c.fails
}

func (c *cluster) GetTask(_ context.Context, r *apiv1.GetTaskRequest, _ ...grpc.CallOption) (*apiv1.TaskView, error) {
	for _, t := range taskViews() {
		if t.GetFrameworkId()+"/"+t.GetId() == r.GetTask() {
			return t, c.fails
		}
	}
	return nil, api.E("task", api.NotFound, r.GetTask(), errors.New("there is no such task (any more)"))
}

func (c *cluster) ListOffers(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListOffersResponse, error) {
	return &apiv1.ListOffersResponse{Items: offerViews()}, c.fails
}

func offerViews() []*apiv1.OfferView {
	return []*apiv1.OfferView{{Id: "offer-1-1", AgentId: "agent-1", FrameworkId: "framework-1", Role: "default", Resources: amount("cpus:1")}}
}

// halves are what a watch tells first: what there is, in two parts. What has ended or was removed is not there.
func halves() (first, second *apiv1.WatchResponse) {
	first, second = new(apiv1.WatchResponse), &apiv1.WatchResponse{Complete: true}
	for _, a := range agentViews() {
		first.Items = append(first.Items, &apiv1.Change{View: &apiv1.Change_Agent{Agent: a}})
	}
	second.Items = append(second.Items, &apiv1.Change{View: &apiv1.Change_Framework{Framework: frameworkViews()[0]}}, &apiv1.Change{View: &apiv1.Change_Offer{Offer: offerViews()[0]}})
	for _, t := range taskViews() {
		if t.GetState() != "FAILED" {
			second.Items = append(second.Items, &apiv1.Change{View: &apiv1.Change_Task{Task: t}})
		}
	}
	return first, second
}

func (c *cluster) ListExecutors(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListExecutorsResponse, error) {
	return &apiv1.ListExecutorsResponse{Items: []*apiv1.ExecutorView{
		{Id: "idle", FrameworkId: "framework-1", AgentId: "agent-2", Role: "web", Resources: amount("cpus:0.1;mem:32")},
		{Id: "old", FrameworkId: "framework-1", AgentId: "agent-1", Role: "default", Tasks: 1},
		{Id: "command", FrameworkId: "framework-1", AgentId: "agent-1", Role: "web"},
	}}, c.fails
}

func (c *cluster) ListOperations(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListOperationsResponse, error) {
	return &apiv1.ListOperationsResponse{Items: []*apiv1.OperationView{
		{
			Id: "my%20reserve", FrameworkId: "framework-1", AgentId: "agent-1", Role: "web", Kind: apiv1.OperationKind_RESERVE, State: "waiting",
			Resources: amount("cpus(web,dynamic):1"),
		},
		{Id: "was", FrameworkId: "framework-1", AgentId: "agent-2", State: "done"},
		{Id: "not", FrameworkId: "framework-1", AgentId: "agent-2", State: "refused", Why: "it is too large"},
	}}, c.fails
}

func (c *cluster) ListMasters(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListMastersResponse, error) {
	return &apiv1.ListMastersResponse{Items: []*apiv1.MasterView{
		{Id: "m1", State: "follower", HttpAddress: "10.0.0.1:5050"}, {Id: "m2", State: "leader", HttpAddress: "10.0.0.2:5050"},
	}}, c.fails
}

// daemon answers as the HTTP port of a master or an agent.
func (c *cluster) daemon(address, path, ticket string) (client.Answer, error) {
	c.said("cluster: %s%s %s", address, path, ticket)
	if path == "/v1/log" {
		return client.Answer{Body: []byte("fourth line\nfifth line\n"), Header: http.Header{logging.BeforeHeader: {"30"}}}, c.fails
	}
	return client.Answer{Body: []byte(`{"version":"v1","flags":{"hostname":"` + address + `","task-pids":"7"}}`)}, c.fails
}

func (c *cluster) GetFromMaster(_ context.Context, address, path string) (client.Answer, error) {
	return c.daemon(address, path, "")
}

func (c *cluster) GetFromAgent(_ context.Context, address, path, ticket string) (client.Answer, error) {
	return c.daemon(address, path, ticket)
}

func (c *cluster) PostToAgent(_ context.Context, address, path, ticket string) (client.Answer, error) {
	return c.daemon(address, path, ticket)
}

func (c *cluster) ListRoles(context.Context, *apiv1.ListRequest, ...grpc.CallOption) (*apiv1.ListRolesResponse, error) {
	return &apiv1.ListRolesResponse{Items: []*apiv1.RoleView{
		{Role: "default", Weight: 1, Allocated: amount("cpus:1;mem:32")},
		{Role: "web", Weight: 2.5, Guarantee: amount("cpus:1"), Limit: amount("cpus:2;mem:64")},
	}}, c.fails
}

// asked notes a change that the cluster is asked for.
func (c *cluster) asked(call string, request proto.Message) (*apiv1.ActionResponse, error) {
	text, err := protojson.Marshal(request)
	if err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	_ = json.Compact(&plain, text) // protojson has written it
	c.said("cluster: %s %s", call, plain.String())
	return &apiv1.ActionResponse{}, c.fails
}

func (c *cluster) RemoveFramework(_ context.Context, r *apiv1.RemoveFrameworkRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("RemoveFramework", r)
}

func (c *cluster) MarkAgent(_ context.Context, r *apiv1.MarkAgentRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("MarkAgent", r)
}

func (c *cluster) SetMaintenance(_ context.Context, r *apiv1.SetMaintenanceRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("SetMaintenance", r)
}

func (c *cluster) Reserve(_ context.Context, r *apiv1.ReserveRequest, _ ...grpc.CallOption) (*apiv1.ActionResponse, error) {
	return c.asked("Reserve", r)
}

func (c *cluster) SetRole(_ context.Context, r *apiv1.SetRoleRequest, _ ...grpc.CallOption) (*apiv1.RoleView, error) {
	_, err := c.asked("SetRole", r)
	return &apiv1.RoleView{}, err
}
