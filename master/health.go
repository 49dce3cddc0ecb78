package master

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tenderhq/tender/api"
)

// healthService answers gRPC's health checks for the master as a whole, under the service name "". It answers what
// /readyz answers.
type healthService struct {
	healthv1.UnimplementedHealthServer
	leading *leadership
}

var errOneService = errors.New("a master is healthy as a whole; ask for the service whose name is empty")

// healthEvery is how often a watcher's answer is computed again when there is no news.
const healthEvery = time.Second

func (s healthService) status() healthv1.HealthCheckResponse_ServingStatus {
	if ready, _ := s.leading.ready(); ready {
		return healthv1.HealthCheckResponse_SERVING
	}
	return healthv1.HealthCheckResponse_NOT_SERVING
}

// Check answers with the current status.
func (s healthService) Check(_ context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if r.GetService() != "" {
		return nil, api.E("health.check", api.NotFound, r.GetService(), errOneService)
	}
	return &healthv1.HealthCheckResponse{Status: s.status()}, nil
}

// List names the only service.
func (s healthService) List(context.Context, *healthv1.HealthListRequest) (*healthv1.HealthListResponse, error) {
	return &healthv1.HealthListResponse{Statuses: map[string]*healthv1.HealthCheckResponse{"": {Status: s.status()}}}, nil
}

// Watch sends the current status, and then each change of it.
func (s healthService) Watch(r *healthv1.HealthCheckRequest, stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	look := time.NewTicker(healthEvery)
	defer look.Stop()
	last := healthv1.HealthCheckResponse_UNKNOWN
	for {
		news := s.leading.news.wait()
		status := s.status()
		if r.GetService() != "" {
			status = healthv1.HealthCheckResponse_SERVICE_UNKNOWN
		}
		if status != last {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: status}); err != nil {
				return err
			}
			last = status
		}
		select {
		case <-news:
		case <-look.C:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
