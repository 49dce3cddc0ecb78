package nouns

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
)

// endpoint is a named port of a running task that passes its health checks, if it has any.
type endpoint = *structpb.Struct

func fieldOf(name string) func(endpoint) string {
	return func(e endpoint) string { return e.GetFields()[name].GetStringValue() }
}

var endpointLooks = looks[endpoint]{fieldOf("address"), fieldOf("port"), []column[endpoint]{
	text("ENDPOINT", fieldOf("address")),
	text("PORT", fieldOf("port")),
	text("TASK", fieldOf("task")),
	text("AGENT", fieldOf("agent")),
	wide(text("FRAMEWORK NAME", fieldOf("framework"))),
	wide(text("HOSTNAME", fieldOf("hostname"))),
}}

// listEndpoints lists the ports of tasks whose own name, or that of their framework, begins with the query's prefix.
func listEndpoints(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	running := *q
	running.Prefix, running.Limit, running.States = "", 0, []string{api.TaskRunning.String()}
	tasks, _, err := client.All(ctx, c.Operator().ListTasks, 0, running.tasks())
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(tasks, func(a, b *apiv1.TaskView) int { return cmp.Compare(TaskRef(a), TaskRef(b)) })
	var items []endpoint
	for _, task := range tasks {
		named := strings.HasPrefix(task.GetId(), q.Prefix) || strings.HasPrefix(TaskRef(task), q.Prefix) || task.GetFrameworkName() == q.Prefix
		if named {
			items = append(items, endpointsOf(task)...)
		}
	}
	more := q.Limit > 0 && len(items) > q.Limit
	if more {
		items = items[:q.Limit]
	}
	list := &structpb.ListValue{}
	for _, item := range items {
		list.Values = append(list.Values, structpb.NewStructValue(item))
	}
	message := &structpb.Struct{Fields: map[string]*structpb.Value{"items": structpb.NewListValue(list)}}
	return endpointLooks.listing(message, items, more), nil
}

// endpointsOf returns the ports of a task that is ready.
func endpointsOf(task *apiv1.TaskView) (endpoints []endpoint) {
	for _, one := range wire.ReadyEndpoints(task) {
		fields := map[string]*structpb.Value{"number": structpb.NewNumberValue(float64(one.Number))}
		for name, value := range map[string]string{
			"address": net.JoinHostPort(one.Host, strconv.Itoa(int(one.Number))),
			"port":    one.Port, "task": TaskRef(task), "agent": task.GetAgentId(), "framework": task.GetFrameworkName(), "hostname": task.GetHostname(),
		} {
			fields[name] = structpb.NewStringValue(value)
		}
		endpoints = append(endpoints, &structpb.Struct{Fields: fields})
	}
	return endpoints
}

// viewEndpoints lists the endpoints of a task.
func viewEndpoints(view proto.Message) *Listing {
	task, _ := view.(*apiv1.TaskView)
	return endpointLooks.listing(nil, endpointsOf(task), false)
}
