package master

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// watchService tells what changes in the cluster, and what has changed.
type watchService struct {
	apiv1.UnimplementedWatchServiceServer
	master *Master
}

// Watch refuses, because this master tells no changes.
func (s watchService) Watch(*apiv1.WatchRequest, grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	return api.E("watch", api.Unsupported, s.master.config.ID, errors.New("this master tells no changes"))
}

// ListEvents refuses, because this master keeps no events.
func (s watchService) ListEvents(context.Context, *apiv1.ListEventsRequest) (*apiv1.ListEventsResponse, error) {
	return nil, api.E("events.list", api.Unsupported, s.master.config.ID, errors.New("this master keeps no events"))
}
