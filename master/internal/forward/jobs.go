// Package forward forwards calls of the job service to the framework that serves it, with who makes them, so that people
// need only the masters' addresses. It decides nothing but which framework: the framework's answer is passed on.
package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/transport"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/view"
)

// JobsEndpoint is the name of the endpoint at which a framework serves the job service.
const JobsEndpoint = "jobs"

// Jobs is the job service as a master serves it.
type Jobs struct {
	apiv1.UnimplementedJobServiceServer
	// Managers returns the endpoints of the job managers, active or not.
	Managers func(ctx context.Context) ([]view.Endpoint, error)
	// Dial opens a connection to an address. It proves this master's identity, and checks the manager's.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn // by address; only of managers that there were at the latest call
}

// call is what the requests of all calls have in common.
type call interface{ GetManager() string }

// roleOf returns the role of the job that a request brings; "": it names none.
func roleOf(request call) api.Role {
	brings, is := request.(interface{ GetJob() *structpb.Struct })
	if !is {
		return ""
	}
	return api.Role(brings.GetJob().GetFields()["role"].GetStringValue())
}

// client returns a client of the manager that the request is for, and the context of the forwarded call, which says who
// makes it.
func (j *Jobs) client(ctx context.Context, request call) (apiv1.JobServiceClient, context.Context, error) {
	managers, err := j.Managers(ctx)
	if err != nil {
		return nil, nil, err
	}
	chosen, err := Choose(managers, request.GetManager(), roleOf(request))
	if err != nil {
		return nil, nil, err
	}
	if ctx, err = wire.WithJobCaller(ctx, guard.ScopeOf(ctx)); err != nil {
		return nil, nil, err
	}
	conn, err := j.connect(chosen.Address, managers)
	if err != nil {
		return nil, nil, api.E(op, api.Unavailable, chosen.Address, err)
	}
	return apiv1.NewJobServiceClient(conn), ctx, nil
}

// connect returns a connection to the address. It closes those to addresses that no manager has any more.
func (j *Jobs) connect(address string, managers []view.Endpoint) (*grpc.ClientConn, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for old, conn := range j.conns { // order: irrelevant because each is closed by itself
		if !slices.ContainsFunc(managers, func(one view.Endpoint) bool { return one.Address == old }) {
			_ = conn.Close() // its calls end; nobody serves there any more
			delete(j.conns, old)
		}
	}
	if conn := j.conns[address]; conn != nil {
		return conn, nil
	}
	conn, err := transport.Connect(address, j.Dial,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second}}))
	if err != nil {
		return nil, err
	}
	if j.conns == nil {
		j.conns = make(map[string]*grpc.ClientConn)
	}
	j.conns[address] = conn
	return conn, nil
}

// Close ends the connections.
func (j *Jobs) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, conn := range j.conns { // order: irrelevant because all are closed
		errs = append(errs, conn.Close())
	}
	clear(j.conns)
	return errors.Join(errs...)
}

// told makes a sentence of an error of the transport. An error of the manager stays as it is.
func told(err error) error {
	answer, _ := status.FromError(err)
	if answer.Code() == codes.Unavailable && len(answer.Details()) == 0 {
		return api.E(op, api.Unavailable, "", fmt.Errorf("the job manager does not answer; another one may take over: %s", answer.Message()))
	}
	return err
}

// pass forwards a call that has one answer.
func pass[Request call, Answer any](
	ctx context.Context, j *Jobs, request Request,
	ask func(apiv1.JobServiceClient, context.Context, Request, ...grpc.CallOption) (Answer, error),
) (answer Answer, err error) {
	client, ctx, err := j.client(ctx, request)
	if err != nil {
		return answer, err
	}
	answer, err = ask(client, ctx, request)
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
func passStream[Request call, Answer any](
	j *Jobs, request Request, to grpc.ServerStreamingServer[Answer],
	ask func(apiv1.JobServiceClient, context.Context, Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Answer], error),
) error {
	client, ctx, err := j.client(to.Context(), request)
	if err != nil {
		return err
	}
	from, err := ask(client, ctx, request)
	for err == nil {
		var news *Answer
		if news, err = from.Recv(); err == nil {
			err = to.Send(news)
		}
	}
	return told(err)
}
