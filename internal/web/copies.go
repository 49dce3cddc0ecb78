package web

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
)

const (
	// copyItemsMax bounds each list of a copy. What is beyond it the picture does not draw, and says so.
	copyItemsMax = 10_000
	// freshFor is for how long a copy counts though nothing was said to have changed.
	freshFor = lookEvery / 2
	// copiesMax bounds the copies that are kept. Beyond it all are forgotten, and made again for whoever looks.
	copiesMax = 256
)

// copied is the cluster as one person may see it. A list that the person may not see has its error instead.
type copied struct {
	cluster    *apiv1.ClusterView
	agents     list[*apiv1.AgentView]
	frameworks list[*apiv1.FrameworkView]
	tasks      list[*apiv1.TaskView]
	roles      list[*apiv1.RoleView]
}

// list is one list of a copy.
type list[V any] struct {
	items []V
	more  bool // there are more than a copy holds
	err   error
}

// copies holds the newest copy for each person who looks, so that all tabs of a person cost the cluster one.
type copies struct {
	mu sync.Mutex
	by map[string]*kept // guarded by mu; by the person's name
}

// kept is a copy and the change as of which it was made.
type kept struct {
	mu     sync.Mutex // held while the copy is made
	change uint64
	at     time.Time // zero: it was never made
	of     *copied
}

// copy returns the cluster as the request's person may see it, as it is after the latest change that was told.
func (s *Server) copy(ctx context.Context) (*copied, error) {
	change, _ := s.changes.now()
	one := s.copies.of(viewerOf(ctx).Name)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.change == change && s.config.Clock().Sub(one.at) < freshFor {
		return one.of, nil
	}
	made, err := s.ask(ctx)
	if err != nil {
		return nil, err
	}
	one.of, one.change, one.at = made, change, s.config.Clock()
	return made, nil
}

func (c *copies) of(name string) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.by) >= copiesMax {
		c.by = nil
	}
	if c.by == nil {
		c.by = map[string]*kept{}
	}
	if c.by[name] == nil {
		c.by[name] = new(kept)
	}
	return c.by[name]
}

// ask makes a copy.
func (s *Server) ask(ctx context.Context) (*copied, error) {
	cluster, err := s.operator.GetCluster(ctx, &apiv1.GetClusterRequest{})
	if err != nil {
		return nil, err
	}
	of := func(token string, limit int32) *apiv1.ListRequest {
		return &apiv1.ListRequest{PageToken: token, Limit: limit}
	}
	return &copied{
		cluster:    cluster,
		agents:     listed(ctx, s.operator.ListAgents, of),
		frameworks: listed(ctx, s.operator.ListFrameworks, of),
		roles:      listed(ctx, s.operator.ListRoles, of),
		tasks: listed(ctx, s.operator.ListTasks, func(token string, limit int32) *apiv1.ListTasksRequest {
			return &apiv1.ListTasksRequest{PageToken: token, Limit: limit}
		}),
	}, nil
}

// listed reads a list, as much of it as a copy holds.
func listed[Q any, V any, P client.Page[V]](
	ctx context.Context, call func(context.Context, Q, ...grpc.CallOption) (P, error), request func(token string, limit int32) Q,
) list[V] {
	items, more, err := client.All(ctx, call, copyItemsMax, request)
	if err != nil {
		return list[V]{err: err}
	}
	return list[V]{items: items, more: more}
}
