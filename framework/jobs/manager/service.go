package manager

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework/internal/jobs/keeper"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/jobfile"
	"github.com/tenderhq/tender/internal/wire"
)

// Endpoint is the name under which a framework publishes the address of its job service in its endpoints. The masters
// forward people's calls to that address, if the framework is active. It is also the default name of the framework.
const Endpoint = "jobs"

// NewServer makes a gRPC server with the manager's job service.
func NewServer(m *Manager, more ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(append(more,
		grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
			if ctx, err = admit(ctx, info.FullMethod); err == nil {
				answer, err = handle(ctx, request)
			}
			return answer, wire.Status(err)
		}),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			ctx, err := admit(stream.Context(), info.FullMethod)
			if err == nil {
				err = handle(server, admitted{stream, ctx})
			}
			return wire.Status(err)
		}),
	)...)
	apiv1.RegisterJobServiceServer(server, service{manager: m})
	return server
}

// service offers a manager as a gRPC service.
type service struct {
	apiv1.UnimplementedJobServiceServer
	manager *Manager
}

func jobOf(op string, object *structpb.Struct) (jobs.Job, error) {
	job, err := jobfile.Decode(object.AsMap())
	if err != nil {
		return job, api.E(op, api.Invalid, job.Name, err)
	}
	return job, nil
}

func (s service) SubmitJob(ctx context.Context, r *apiv1.SubmitJobRequest) (*apiv1.JobVersion, error) {
	job, err := jobOf("job.submit", r.GetJob())
	if err != nil {
		return nil, err
	}
	version, err := s.manager.SubmitJob(ctx, job)
	return showCurrent(version, err)
}

func (s service) UpdateJob(ctx context.Context, r *apiv1.UpdateJobRequest) (*apiv1.JobVersion, error) {
	job, err := jobOf("job.update", r.GetJob())
	if err != nil {
		return nil, err
	}
	version, err := s.manager.UpdateJob(ctx, job, int(r.GetIfVersion()))
	return showCurrent(version, err)
}

func (s service) RollbackJob(ctx context.Context, r *apiv1.RollbackJobRequest) (*apiv1.JobVersion, error) {
	version, err := s.manager.RollbackJob(ctx, r.GetName(), int(r.GetVersion()), int(r.GetIfVersion()))
	return showCurrent(version, err)
}

func (s service) RunJobNow(ctx context.Context, r *apiv1.RunJobNowRequest) (*apiv1.RunJobNowResponse, error) {
	number, err := s.manager.RunNow(ctx, r.GetName(), int(r.GetNumber()))
	return &apiv1.RunJobNowResponse{Number: int32(number)}, err
}

func (s service) PlanJob(ctx context.Context, r *apiv1.PlanJobRequest) (*apiv1.PlanJobResponse, error) {
	job, err := jobOf("job.plan", r.GetJob())
	if err != nil {
		return nil, err
	}
	if err := s.manager.checkJob("job.plan", job); err != nil {
		return nil, err
	}
	if job, err = s.manager.settlePlanned(ctx, job); err != nil {
		return nil, err
	}
	answer := &apiv1.PlanJobResponse{Action: "submit"}
	for _, sub := range job.Plan().SubJobs {
		answer.SubJobs = append(answer.SubJobs, &apiv1.SubJobStatus{Name: sub.Name, Tasks: int32(sub.Tasks)})
	}
	versions, status, err := s.manager.statusAndHistory(ctx, "job.plan", job.Name)
	switch {
	case api.Is(err, api.NotFound):
		return answer, nil
	case err != nil:
		return nil, err
	}
	answer.Version = int32(status.Version)
	var current jobs.Job
	for _, version := range versions {
		if version.Number == status.Version {
			current = version.Job
		}
	}
	if answer.Changes, err = jobfile.Changes(current, job); err != nil {
		return nil, err
	}
	switch {
	case status.Phase.Ended():
	case status.Phase != jobs.Running:
		return nil, api.E("job.plan", api.Stale, job.Name, fmt.Errorf("it is %s; submit it when it has ended, to begin it anew", status.Phase))
	case len(answer.Changes) == 0:
		answer.Action = "nothing"
	default:
		if err := keeper.MayBecome(current, job); err != nil {
			return nil, api.E("job.plan", api.Invalid, job.Name, err)
		}
		answer.Action = "update"
	}
	return answer, nil
}

func (s service) StopJob(ctx context.Context, r *apiv1.StopJobRequest) (*apiv1.StopJobResponse, error) {
	return &apiv1.StopJobResponse{}, s.manager.StopJob(ctx, r.GetName())
}

func (s service) DeleteJob(ctx context.Context, r *apiv1.DeleteJobRequest) (*apiv1.DeleteJobResponse, error) {
	return &apiv1.DeleteJobResponse{}, s.manager.DeleteJob(ctx, r.GetName())
}

// listDefault is how many jobs a page has if the request names no number.
const listDefault = 100

func (s service) ListJobs(ctx context.Context, r *apiv1.ListJobsRequest) (*apiv1.ListJobsResponse, error) {
	query := ListQuery{Prefix: r.GetPrefix(), After: r.GetPageToken(), Going: !r.GetAll(),
		Limit: min(cmp.Or(max(0, int(r.GetLimit())), listDefault), api.PageItemsMax)}
	list, more, err := s.manager.ListJobs(ctx, query)
	if err != nil {
		return nil, err
	}
	answer := &apiv1.ListJobsResponse{}
	if more {
		answer.NextPageToken = list[len(list)-1].Name
	}
	answer.Items = s.showJobs(ctx, list...)
	return answer, nil
}

func (s service) GetJob(ctx context.Context, r *apiv1.GetJobRequest) (*apiv1.JobStatus, error) {
	status, err := s.manager.JobStatus(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	return s.showJobs(ctx, status)[0], nil
}

func (s service) WatchJob(r *apiv1.GetJobRequest, to grpc.ServerStreamingServer[apiv1.JobStatus]) error {
	return s.manager.WatchJob(to.Context(), r.GetName(), func(status jobs.Status) error {
		return to.Send(s.showJobs(to.Context(), status)[0])
	})
}

func (s service) WatchJobs(r *apiv1.WatchJobsRequest, to grpc.ServerStreamingServer[apiv1.WatchJobsResponse]) error {
	return s.manager.WatchJobs(to.Context(), r.GetPrefix(), func(news JobsNews) error {
		return to.Send(&apiv1.WatchJobsResponse{Items: s.showJobs(to.Context(), news.Changed...), RemovedNames: news.Removed, Complete: news.Complete})
	})
}

func (s service) GetJobHistory(ctx context.Context, r *apiv1.GetJobHistoryRequest) (*apiv1.GetJobHistoryResponse, error) {
	versions, status, err := s.manager.statusAndHistory(ctx, "job.history", r.GetName())
	if err != nil {
		return nil, err
	}
	answer := &apiv1.GetJobHistoryResponse{}
	for _, version := range versions {
		item, err := showVersion(version)
		if err != nil {
			return nil, err
		}
		item.Current = version.Number == status.Version
		answer.Items = append(answer.Items, item)
	}
	return answer, nil
}

// showCurrent returns the version that a job now has, as a message.
func showCurrent(version jobs.Version, err error) (*apiv1.JobVersion, error) {
	if err != nil {
		return nil, err
	}
	shown, err := showVersion(version)
	if err == nil {
		shown.Current = true
	}
	return shown, err
}

func showVersion(version jobs.Version) (*apiv1.JobVersion, error) {
	tree, err := jobfile.Encode(version.Job)
	if err != nil {
		return nil, err
	}
	object, err := structpb.NewStruct(tree)
	if err != nil {
		return nil, fmt.Errorf("version %d of %s can't be shown: %w", version.Number, version.Job.Name, err)
	}
	return &apiv1.JobVersion{Name: version.Job.Name, Version: int32(version.Number), At: timestamppb.New(version.At), Why: version.Why, Job: object,
		Proven: version.Proven, Bad: version.Bad, Owner: version.Owner}, nil
}

// showJobs returns the statuses of jobs as messages. The masters are not asked for longer than waitsAsked why tasks
// wait.
func (s service) showJobs(ctx context.Context, statuses ...jobs.Status) (shown []*apiv1.JobStatus) {
	ctx, stop := context.WithTimeout(ctx, waitsAsked)
	defer stop()
	for _, status := range statuses {
		shown = append(shown, s.showJob(ctx, status))
	}
	return shown
}

// showJob returns a job's status as a message, with the masters' reasons if some of its tasks wait.
func (s service) showJob(ctx context.Context, status jobs.Status) *apiv1.JobStatus {
	if status.Waits() {
		var inVain bool
		if status.Waiting, inVain = s.manager.whyWaits(ctx, status.Name); inVain {
			status.Why = cmp.Or(status.Why, status.Waiting[0])
		}
	}
	shown := &apiv1.JobStatus{
		Name: status.Name, Type: string(status.Type), Phase: string(status.Phase), Why: status.Why, Version: int32(status.Version),
		Submitted: timestamppb.New(status.Submitted), FrameworkId: string(s.manager.frameworkID()), Waits: status.Waiting,
		Role: string(status.Role), Owner: status.Owner, NewestRun: int32(status.NewestRun),
		Ended: wire.TimeToProto(status.Ended), NextRun: wire.TimeToProto(status.Next),
	}
	for _, sub := range status.SubJobs {
		shown.SubJobs = append(shown.SubJobs, &apiv1.SubJobStatus{Name: sub.Name, Tasks: int32(sub.Tasks), Waiting: int32(sub.Waiting),
			Pausing: int32(sub.Pausing), Running: int32(sub.Running), Busy: int32(sub.Busy), Done: int32(sub.Done), Failed: int32(sub.Failed), State: sub.State})
	}
	if r := status.Roll; r != nil {
		shown.Roll = &apiv1.JobRoll{To: int32(r.To), From: int32(r.From), Changed: int32(r.Changed), Trying: int32(r.Trying), Of: int32(r.Of),
			Stopped: r.Stopped, Back: r.Back}
	}
	for _, run := range status.Runs {
		shown.Runs = append(shown.Runs, &apiv1.JobRun{Number: int32(run.Number), Due: timestamppb.New(run.Due), Began: timestamppb.New(run.Began),
			Ended: timestamppb.New(run.Ended), Version: int32(run.Version), State: run.State, Done: int32(run.Done), Failed: int32(run.Failed)})
	}
	for _, assigned := range status.Tasks {
		shown.Tasks = append(shown.Tasks, showTask(assigned))
	}
	for _, note := range status.Notes {
		shown.Notes = append(shown.Notes, &apiv1.JobNote{At: timestamppb.New(note.At), Text: note.Text})
	}
	return shown
}

func showTask(assigned jobs.Assignment) *apiv1.JobTask {
	task := &apiv1.JobTask{SubJob: assigned.SubJob, Index: int32(assigned.Index), Attempt: int32(assigned.Attempt), Version: int32(assigned.Version),
		TaskId: string(assigned.Task), AgentId: string(assigned.Agent), Hostname: assigned.Hostname, Since: timestamppb.New(assigned.Since), Failures: int32(assigned.Failures), Copy: assigned.Copy, Why: assigned.Why}
	if assigned.State != api.TaskUnspecified {
		task.State = assigned.State.String()
	}
	for name, port := range assigned.Ports { // order: irrelevant because the result is a map
		if task.Ports == nil {
			task.Ports = make(map[string]uint32)
		}
		task.Ports[name] = uint32(port)
	}
	return task
}
