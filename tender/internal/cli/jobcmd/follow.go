package jobcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
)

func (e Env) runCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "run FILE", Short: "Submit a job, or update it, and follow it", Args: caller.Between(1, "FILE"),
		Long: "Submit a job, or update it if there is one of its name, and print what happens to it: until it has ended or, if it has\n" +
			"no end, until all its tasks run as its file says (for a system job, on all agents that there are by then), pass\n" +
			"their checks, and have done so for the job's proof. Ctrl-C ends only the printing; the job goes on.\n\n" +
			"The exit code is 1 when the job has failed, when a change of it has gone wrong, and when no further task has proven\n" +
			"itself for as long as the job's progress_deadline (default 10m); a service that is new is still tried then.",
	}
	seen := ifVersion(command)
	command.RunE = e.with(func(ctx context.Context, s service, args []string) error {
		object, job, err := e.read(args[0])
		if err != nil {
			return err
		}
		version, err := s.change(ctx, object, *seen)
		if err != nil {
			return err
		}
		if err := e.say("%s is version %d (%s)", version.GetName(), version.GetVersion(), version.GetWhy()); err != nil {
			return err
		}
		if how := job.WithDefaults().Rolling(); how != nil {
			if err := e.say("%s; waiting for that, for up to %v without progress", proofOf(job, how), how.ProgressDeadline); err != nil {
				return err
			}
		}
		told := newNews(version.GetAt().AsTime())
		return s.follow(ctx, version.GetName(), func(status *apiv1.JobStatus) (over bool, err error) {
			if err := e.tell("", told.of(status)); err != nil {
				return true, err
			}
			return settled(status, version.GetVersion())
		})
	})
	return command
}

// change submits a job, or updates it if there is one of its name. A job of which somebody has seen a version is there.
func (s service) change(ctx context.Context, job *structpb.Struct, seen int32) (version *apiv1.JobVersion, err error) {
	if seen == 0 {
		if version, err = call(ctx, s, s.SubmitJob, &apiv1.SubmitJobRequest{Job: job}); !api.Is(err, api.Exists) {
			return version, err
		}
	}
	return call(ctx, s, s.UpdateJob, &apiv1.UpdateJobRequest{Job: job, IfVersion: seen})
}

// proofOf says for how long each task of the job has to run well.
func proofOf(job jobs.Job, how *jobs.Service) string {
	proof := jobs.Duration(jobs.DefaultProof)
	if written := job.Rolling(); written != nil {
		proof = cmp.Or(written.Proof, proof)
	}
	if how.Proof > proof {
		return fmt.Sprintf("each task has to run well for %v, which its checks need to find that it does not", how.Proof)
	}
	return fmt.Sprintf("each task has to run well for %v", how.Proof)
}

// follow passes a job to see whenever it has changed, until see returns true.
func (s service) follow(ctx context.Context, name string, see func(*apiv1.JobStatus) (over bool, err error)) error {
	return read(ctx, s.stderr, func(ctx context.Context) (grpc.ServerStreamingClient[apiv1.JobStatus], error) {
		return s.WatchJob(ctx, to(s, &apiv1.GetJobRequest{Name: name}))
	}, func(_ bool, status *apiv1.JobStatus) (bool, error) { return see(status) })
}

// followAll passes all jobs of a prefix to see, and then what changes of them, until see returns true. anew says that a
// new picture begins, because another manager or master answers.
func (s service) followAll(ctx context.Context, prefix string, see func(anew bool, news *apiv1.WatchJobsResponse) (over bool, err error)) error {
	return read(ctx, s.stderr, func(ctx context.Context) (grpc.ServerStreamingClient[apiv1.WatchJobsResponse], error) {
		return s.WatchJobs(ctx, to(s, &apiv1.WatchJobsRequest{Prefix: prefix}))
	}, see)
}

// read opens a stream and passes its answers to see. If the stream ends because a manager or a master has ended, it
// opens another one. anew is true for the first answer of a stream.
func read[Answer any](
	ctx context.Context, stderr io.Writer,
	open func(context.Context) (grpc.ServerStreamingClient[Answer], error), see func(anew bool, answer *Answer) (over bool, err error),
) error {
	waiting := newWait(stderr)
	for {
		answered, over, err := readOne(ctx, open, see)
		if answered {
			waiting.answered()
		}
		if over || !comesBack(err) || !waiting.goesOn(ctx, client.Error(err)) {
			return client.Error(err)
		}
	}
}

// readOne reads one stream. over says that see has returned true or an error.
func readOne[Answer any](
	ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[Answer], error), see func(anew bool, answer *Answer) (over bool, err error),
) (answered, over bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := open(ctx)
	for err == nil {
		var answer *Answer
		if answer, err = stream.Recv(); err != nil {
			break
		}
		if over, err = see(!answered, answer); over || err != nil {
			return true, true, err
		}
		answered = true
	}
	return answered, false, err
}

// comesBack says whether a stream has ended because its server has, so that another server can continue.
func comesBack(err error) bool {
	return errors.Is(err, io.EOF) || api.Transient(client.Error(err))
}

// ended says whether a job has ended; the error says that it has failed.
func ended(status *apiv1.JobStatus) (over bool, err error) {
	switch status.GetPhase() {
	case "SUCCEEDED", "STOPPED":
		return true, nil
	case "FAILED":
		return true, fmt.Errorf("%s has failed: %s", status.GetName(), status.GetWhy())
	}
	return false, nil
}

// settled says whether there is nothing more to wait for of a job that should have this version; the error says that it
// has failed.
func settled(status *apiv1.JobStatus, version int32) (over bool, err error) {
	if over, err := ended(status); over {
		return true, err
	}
	switch status.GetType() {
	case "cron":
		return status.GetNextRun() != nil, nil
	case "service", "system":
	default:
		return false, nil
	}
	if r := status.GetRoll(); r != nil {
		switch {
		case r.GetStopped() && r.GetFrom() == 0:
			return true, fmt.Errorf("%s does not come up: %s", status.GetName(), status.GetWhy())
		case r.GetStopped():
			return true, fmt.Errorf("the change of %s has stopped: %s", status.GetName(), status.GetWhy())
		}
		return false, nil
	}
	for _, one := range status.GetSubJobs() {
		if one.GetRunning() != one.GetTasks() || status.GetType() == "system" && one.GetTasks() == 0 {
			return false, nil
		}
	}
	if status.GetVersion() != version {
		return true, fmt.Errorf("%s has gone back to version %d: %s", status.GetName(), status.GetVersion(), status.GetWhy())
	}
	return true, nil
}
