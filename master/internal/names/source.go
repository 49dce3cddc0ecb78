package names

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// Source is where a master knows things from.
type Source struct {
	// Index is that of the registry's last entry.
	Index func() uint64
	// Registry has the registry read, which waits for that.
	Registry func(read func(*registry.State))
	// Leader is where another master leads, and is asked by Dial for what only it knows; "": this one does, or nobody.
	Leader func() (address string)
	Dial   func(address string) (*grpc.ClientConn, error)
	// Tasks lists what this master knows while it leads.
	Tasks func(context.Context, *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error)
}

// eachTask gives each of a framework's tasks that run, as the leader knows them, until each says false.
func (s *Source) eachTask(ctx context.Context, of api.FrameworkID, each func(*apiv1.TaskView) bool) error {
	list := s.Tasks
	if leader := s.Leader(); leader != "" {
		conn, err := s.Dial(leader)
		if err != nil {
			return err
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
			return wire.Error(err)
		}
		for _, task := range page.GetItems() {
			if !each(task) {
				return nil
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return nil
		}
	}
}
