// Package forward forwards calls of the job service to the framework that serves it, so that people need only the
// masters' addresses. It decides nothing: the framework's answer is passed on.
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
	"github.com/tenderhq/tender/internal/trust/transport"
)

// JobsEndpoint is the name of the endpoint at which a framework serves the job service.
const JobsEndpoint = "jobs"

// Jobs is the job service as a master serves it.
type Jobs struct {
	apiv1.UnimplementedJobServiceServer
	// Find returns the address of the active job manager; "" if there is none.
	Find func(ctx context.Context) (address string, err error)
	// Dial opens a connection to that address. It proves this master's identity, and checks the manager's.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	mu      sync.Mutex
	address string           // the address of conn
	conn    *grpc.ClientConn // the latest that was needed
}

var errNoManager = errors.New("no job manager runs; start one with 'tender jobs'")

// client returns a client of the active job manager. It connects if the manager has another address than before.
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
		_ = j.conn.Close() // its calls end; the manager there is not active any more
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

// told makes a sentence of an error of the transport. An error of the manager stays as it is.
func told(err error) error {
	answer, _ := status.FromError(err)
	if answer.Code() == codes.Unavailable && len(answer.Details()) == 0 {
		return api.E("jobs.forward", api.Unavailable, "", fmt.Errorf("the job manager does not answer; another one may take over: %s", answer.Message()))
	}
	return err
}

// pass forwards a call that has one answer.
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

// SubmitJob forwards the call.
func (j *Jobs) SubmitJob(ctx context.Context, r *apiv1.SubmitJobRequest) (*apiv1.JobVersion, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.SubmitJob)
}

// UpdateJob forwards the call.
func (j *Jobs) UpdateJob(ctx context.Context, r *apiv1.UpdateJobRequest) (*apiv1.JobVersion, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.UpdateJob)
}

// RollbackJob forwards the call.
func (j *Jobs) RollbackJob(ctx context.Context, r *apiv1.RollbackJobRequest) (*apiv1.JobVersion, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.RollbackJob)
}

// PlanJob forwards the call.
func (j *Jobs) PlanJob(ctx context.Context, r *apiv1.PlanJobRequest) (*apiv1.PlanJobResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.PlanJob)
}

// StopJob forwards the call.
func (j *Jobs) StopJob(ctx context.Context, r *apiv1.StopJobRequest) (*apiv1.StopJobResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.StopJob)
}

// DeleteJob forwards the call.
func (j *Jobs) DeleteJob(ctx context.Context, r *apiv1.DeleteJobRequest) (*apiv1.DeleteJobResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.DeleteJob)
}

// ListJobs forwards the call.
func (j *Jobs) ListJobs(ctx context.Context, r *apiv1.ListJobsRequest) (*apiv1.ListJobsResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.ListJobs)
}

// GetJob forwards the call.
func (j *Jobs) GetJob(ctx context.Context, r *apiv1.GetJobRequest) (*apiv1.JobStatus, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.GetJob)
}

// GetJobHistory forwards the call.
func (j *Jobs) GetJobHistory(ctx context.Context, r *apiv1.GetJobHistoryRequest) (*apiv1.GetJobHistoryResponse, error) {
	return pass(ctx, j, r, apiv1.JobServiceClient.GetJobHistory)
}

// WatchJob forwards the call and all answers, until the caller or the manager ends it.
func (j *Jobs) WatchJob(r *apiv1.GetJobRequest, to grpc.ServerStreamingServer[apiv1.JobStatus]) error {
	return passStream(j, r, to, apiv1.JobServiceClient.WatchJob)
}

// WatchJobs forwards the call and all answers, as WatchJob does.
func (j *Jobs) WatchJobs(r *apiv1.WatchJobsRequest, to grpc.ServerStreamingServer[apiv1.WatchJobsResponse]) error {
	return passStream(j, r, to, apiv1.JobServiceClient.WatchJobs)
}

// passStream forwards a call, and all of its answers.
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
