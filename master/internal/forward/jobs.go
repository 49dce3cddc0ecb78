// Package forward forwards the calls of a service to the framework that serves it, so that people need only the
// masters' address. It decides nothing: the framework's answer is the answer.
package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/transport"
)

// JobsEndpoint is the name under which a framework says where it serves the job service.
const JobsEndpoint = "jobs"

// Jobs is the job service as a master serves it.
type Jobs struct {
	apiv1.UnimplementedJobServiceServer
	// Find says where the active job manager serves; "" where there is none.
	Find func(ctx context.Context) (address string, err error)
	// Dial opens a connection to it, and proves and checks identities.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	mu      sync.Mutex
	address string           // of conn
	conn    *grpc.ClientConn // the latest that was needed
}

var errNoManager = errors.New("no job manager runs; start one with 'tender jobs'")

// client connects to the active manager.
func (j *Jobs) client(ctx context.Context) (apiv1.JobServiceClient, error) {
	const op = "jobs.forward"
	address, err := j.Find(ctx)
	switch {
	case err != nil:
		return nil, err
	case address == "":
		return nil, api.E(op, api.NotFound, "", errNoManager)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn != nil && j.address == address {
		return apiv1.NewJobServiceClient(j.conn), nil
	}
	conn, err := transport.Connect(address, j.Dial,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second}}))
	if err != nil {
		return nil, api.E(op, api.Unavailable, address, err)
	}
	if j.conn != nil {
		_ = j.conn.Close() // its calls end; nobody answers there any more
	}
	j.address, j.conn = address, conn
	return apiv1.NewJobServiceClient(conn), nil
}

// Close ends the connection.
func (j *Jobs) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn == nil {
		return nil
	}
	err := j.conn.Close()
	j.conn = nil
	return err
}

// told makes a sentence of what the transport says; what the manager says stays as it is.
func told(err error) error {
	answer, _ := status.FromError(err)
	if answer.Code() == codes.Unavailable && len(answer.Details()) == 0 {
		return api.E("jobs.forward", api.Unavailable, "", fmt.Errorf("the job manager does not answer; another one may take over: %s", answer.Message()))
	}
	return err
}

// pass hands one call on.
func pass[Request, Answer any](
	ctx context.Context, j *Jobs, request Request,
	call func(apiv1.JobServiceClient, context.Context, Request, ...grpc.CallOption) (Answer, error),
) (answer Answer, err error) {
	client, err := j.client(ctx)
	if err != nil {
		return answer, err
	}
	answer, err = call(client, ctx, request)
	return answer, told(err)
}

// SubmitJob implements the service, as do the methods below.
func (j *Jobs) SubmitJob(ctx context.Context, r *apiv1.SubmitJobRequest) (*apiv1.JobVersion, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.SubmitJob)
}

// UpdateJob hands it on.
func (j *Jobs) UpdateJob(ctx context.Context, r *apiv1.UpdateJobRequest) (*apiv1.JobVersion, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.UpdateJob)
}

// RollbackJob hands it on.
func (j *Jobs) RollbackJob(ctx context.Context, r *apiv1.RollbackJobRequest) (*apiv1.JobVersion, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.RollbackJob)
}

// PlanJob hands it on.
func (j *Jobs) PlanJob(ctx context.Context, r *apiv1.PlanJobRequest) (*apiv1.PlanJobResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.PlanJob)
}

// StopJob hands it on.
func (j *Jobs) StopJob(ctx context.Context, r *apiv1.StopJobRequest) (*apiv1.StopJobResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.StopJob)
}

// DeleteJob hands it on.
func (j *Jobs) DeleteJob(ctx context.Context, r *apiv1.DeleteJobRequest) (*apiv1.DeleteJobResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.DeleteJob)
}

// ListJobs hands it on.
func (j *Jobs) ListJobs(ctx context.Context, r *apiv1.ListJobsRequest) (*apiv1.ListJobsResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.ListJobs)
}

// GetJob hands it on.
func (j *Jobs) GetJob(ctx context.Context, r *apiv1.GetJobRequest) (*apiv1.JobStatus, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.GetJob)
}

// GetJobHistory hands it on.
func (j *Jobs) GetJobHistory(ctx context.Context, r *apiv1.GetJobHistoryRequest) (*apiv1.GetJobHistoryResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.GetJobHistory)
}

// WatchJob hands on what the manager sends, until either end has enough.
func (j *Jobs) WatchJob(r *apiv1.GetJobRequest, to grpc.ServerStreamingServer[apiv1.JobStatus]) error {
	return passStream(j, r, to, apiv1.JobServiceClient.WatchJob)
}

// WatchJobs likewise.
func (j *Jobs) WatchJobs(r *apiv1.WatchJobsRequest, to grpc.ServerStreamingServer[apiv1.WatchJobsResponse]) error {
	return passStream(j, r, to, apiv1.JobServiceClient.WatchJobs)
}

// passStream hands one call on, and all of its answers.
func passStream[Request, Answer any](
	j *Jobs, request Request, to grpc.ServerStreamingServer[Answer],
	call func(apiv1.JobServiceClient, context.Context, Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Answer], error),
) error {
	client, err := j.client(to.Context())
	if err != nil {
		return err
	}
	from, err := call(client, to.Context(), request)
	for err == nil {
		var news *Answer
		if news, err = from.Recv(); err == nil {
			err = to.Send(news)
		}
	}
	return told(err)
}
