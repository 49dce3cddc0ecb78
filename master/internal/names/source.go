package names

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// Source is what a master's answers are made from: the registry, and the tasks that the leader knows.
type Source struct {
	// Index returns the index of the registry's last entry.
	Index func() uint64
	// Registry calls read with the state of the registry, which does not change before read has returned.
	Registry func(read func(*registry.State))
	// Leader returns the address of another master that leads, which is connected to by Dial and asked for tasks. It
	// returns "" if this master leads, or none does.
	Leader func() (address string)
	Dial   func(address string) (*grpc.ClientConn, error)
	// Tasks lists the tasks that this master knows while it leads.
	Tasks func(context.Context, *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error)
}

// eachTask calls each with each running task of a framework, as the leader knows it, until each returns false. It returns
// why the leader does not know all of them yet; nil: it does.
func (s *Source) eachTask(ctx context.Context, of api.FrameworkID, each func(*apiv1.TaskView) bool) (notYet *api.Error, err error) {
	list := s.Tasks
	if leader := s.Leader(); leader != "" {
		conn, err := s.Dial(leader)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		list = func(ctx context.Context, r *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error) {
			return apiv1.NewOperatorServiceClient(conn).ListTasks(ctx, r)
		}
	}
	request := &apiv1.ListTasksRequest{FrameworkId: string(of), States: []string{api.TaskRunning.String()}}
	for {
		page, err := list(ctx, request)
		if err != nil {
			return nil, wire.Error(err)
		}
		if notYet == nil {
			notYet = wire.ErrorFromProto(page.GetIncomplete())
		}
		for _, task := range page.GetItems() {
			if !each(task) {
				return nil, nil
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return notYet, nil
		}
	}
}
