package jobcmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/framework/jobs/jobfile"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// Env is what the commands need from their caller.
type Env struct {
	*caller.Caller
	// BesideDev makes a manager's token if the masters belong to a cluster of 'tender dev' of this user; otherwise it
	// returns "".
	BesideDev func(ctx context.Context, masters []string) (token string, err error)
	// Logs prints the output of a task, FRAMEWORK/TASK.
	Logs func(ctx context.Context, c *client.Client, task string, follow, stderr bool) error
}

// service is the job service, reached through the masters.
type service struct {
	apiv1.JobServiceClient
	client  *client.Client
	stderr  io.Writer
	manager string // the job manager that --manager names; "": the masters choose
}

// managerFlag is the flag that all commands about jobs have.
const managerFlag = "manager"

// to returns the request with the manager that it is for.
func to[Request proto.Message](s service, request Request) Request {
	message := request.ProtoReflect()
	message.Set(message.Descriptor().Fields().ByName(managerFlag), protoreflect.ValueOfString(s.manager))
	return request
}

// with makes the function of a command that uses the service.
func (e Env) with(run func(ctx context.Context, s service, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		manager, err := command.Flags().GetString(managerFlag)
		if err != nil {
			return err
		}
		return e.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return run(ctx, service{c.Jobs(), c, e.Stderr, manager}, args)
		})(command, args)
	}
}

// call makes a call to the manager, and repeats it while one manager takes over from another. All calls may be
// repeated: a second copy of a change is answered like the first one.
func call[Request proto.Message, Answer any](ctx context.Context, s service, ask func(context.Context, Request, ...grpc.CallOption) (Answer, error), request Request) (Answer, error) {
	waiting := newWait(s.stderr)
	for {
		answer, err := ask(ctx, to(s, request))
		if err = client.Error(err); !api.Transient(err) || !waiting.goesOn(ctx, err) {
			return answer, err
		}
	}
}

// Command returns 'tender job'.
func (e Env) Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "job",
		Short: "Submit, show and change jobs",
		Long: "Jobs outlive the command line: a job manager ('tender jobs', or the one in 'tender dev') runs them, whatever fails.\n" +
			"A job is described in a file, TOML or JSON; docs/jobs.md has an example of each type, and every field.",
		Example: "  tender job run web.toml\n" +
			"  tender job status web\n" +
			"  tender job stop web",
	}
	root.PersistentFlags().String(managerFlag, "",
		"the job manager: its framework's name, or a role in which it runs (default: the one of the job's role, or \"jobs\")")
	root.AddCommand(e.runCommand(), e.changeCommand("submit", "Begin a job"), e.changeCommand("update", "Make a job what its file says now"),
		e.planCommand(), e.validateCommand(), e.listCommand(), e.watchCommand(), e.statusCommand(), e.historyCommand(), e.rollbackCommand(), e.runNowCommand(), e.logsCommand(),
		e.endCommand("stop", "End a job's tasks; it stays in the history"), e.endCommand("delete", "End a job's tasks and forget it"), e.schemaCommand())
	return root
}

func (e Env) say(format string, values ...any) error {
	_, err := fmt.Fprintf(e.Stdout, format+"\n", values...)
	return err
}

// read reads a job's file; a mistake in it is marked as one of the caller.
func (e Env) read(name string) (*structpb.Struct, jobs.Job, error) {
	job, err := readJob(name, e.Stdin, e.Now())
	if err != nil {
		return nil, job, caller.Usage(err)
	}
	tree, err := jobfile.Encode(job)
	if err != nil {
		return nil, job, err
	}
	object, err := structpb.NewStruct(tree)
	return object, job, err
}

func (e Env) changeCommand(verb, short string) *cobra.Command {
	command := &cobra.Command{
		Use: verb + " FILE", Short: short, Args: caller.Between(1, "FILE"),
		Long: short + ". The command returns once a majority of the masters has stored it.\nSubmitting the same file again changes nothing.",
	}
	seen := new(int32)
	if verb == "update" {
		seen = ifVersion(command)
	}
	command.RunE = e.with(func(ctx context.Context, s service, args []string) error {
		object, _, err := e.read(args[0])
		if err != nil {
			return err
		}
		var version *apiv1.JobVersion
		if verb == "submit" {
			version, err = call(ctx, s, s.SubmitJob, &apiv1.SubmitJobRequest{Job: object})
		} else {
			version, err = call(ctx, s, s.UpdateJob, &apiv1.UpdateJobRequest{Job: object, IfVersion: *seen})
		}
		if err != nil {
			return err
		}
		return e.say("%s is version %d (%s)", version.GetName(), version.GetVersion(), version.GetWhy())
	})
	return command
}

// ifVersion adds the flag by which a change is held to the version that its plan was made for.
func ifVersion(command *cobra.Command) *int32 {
	return command.Flags().Int32("if-version", 0, "refuse if the job is no longer of this version, which 'tender job plan' prints")
}

func (e Env) planCommand() *cobra.Command {
	return &cobra.Command{
		Use: "plan FILE", Short: "Show what a job's file would change, without changing anything", Args: caller.Between(1, "FILE"),
		RunE: e.with(func(ctx context.Context, s service, args []string) error {
			object, job, err := e.read(args[0])
			if err != nil {
				return err
			}
			plan, err := call(ctx, s, s.PlanJob, &apiv1.PlanJobRequest{Job: object})
			if err != nil {
				return err
			}
			return e.showPlan(job, plan)
		}),
	}
}

func (e Env) showPlan(job jobs.Job, plan *apiv1.PlanJobResponse) error {
	switch plan.GetAction() {
	case "nothing":
		return e.say("%s is as its file says; nothing would change", job.Name)
	case "submit":
		if err := e.say("%s would be submitted:", job.Name); err != nil {
			return err
		}
		for _, one := range plan.GetSubJobs() {
			if err := e.say("  %s: %d of its tasks", show.Clean(one.GetName()), one.GetTasks()); err != nil {
				return err
			}
		}
	default:
		if err := e.say("%s would be updated from version %d (--if-version %d refuses what comes behind another change):", job.Name, plan.GetVersion(), plan.GetVersion()); err != nil {
			return err
		}
	}
	for _, line := range plan.GetChanges() {
		if err := e.say("  %s", show.Clean(line)); err != nil {
			return err
		}
	}
	if how := job.WithDefaults().Rolling(); how != nil {
		return e.say("  %s", proofOf(job, how))
	}
	return nil
}

func (e Env) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE", Short: "Check a job's file; no cluster is needed", Args: caller.Between(1, "FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, job, err := e.read(args[0])
			if err != nil {
				return err
			}
			return e.say("%s is a good %s", job.Name, job.Type)
		},
	}
}

func (e Env) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of job files, for editors", Args: caller.Between(0),
		RunE: func(*cobra.Command, []string) error {
			text, err := jobfile.Schema()
			if err != nil {
				return err
			}
			_, err = e.Stdout.Write(text)
			return err
		},
	}
}

func (e Env) endCommand(verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: caller.Between(1, "NAME"),
		RunE: e.with(func(ctx context.Context, s service, args []string) (err error) {
			if verb == "stop" {
				_, err = call(ctx, s, s.StopJob, &apiv1.StopJobRequest{Name: args[0]})
			} else {
				_, err = call(ctx, s, s.DeleteJob, &apiv1.DeleteJobRequest{Name: args[0]})
			}
			if err != nil {
				return err
			}
			return e.say("%s: %s", args[0], map[string]string{"stop": "its tasks end", "delete": "its tasks end, then it is forgotten"}[verb])
		}),
	}
}

func (e Env) rollbackCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rollback NAME [VERSION]", Short: "Return a job to an earlier version", Args: caller.Between(1, "NAME", "VERSION"),
		Long: "Return a job to an earlier version, by default the previous one. 'tender job history' lists them.",
		RunE: e.with(func(ctx context.Context, s service, args []string) (err error) {
			request := &apiv1.RollbackJobRequest{Name: args[0]}
			if len(args) == 2 {
				if _, err := fmt.Sscanf(args[1], "%d", &request.Version); err != nil || request.Version < 1 {
					return caller.Usage(fmt.Errorf("%q is no version; write a number from 'tender job history %s'", args[1], args[0]))
				}
			}
			if request.Version == 0 { // the version is set, so that a second copy asks for the same
				if request.Version, request.IfVersion, err = s.before(ctx, args[0]); err != nil {
					return err
				}
			}
			version, err := call(ctx, s, s.RollbackJob, request)
			if err != nil {
				return err
			}
			return e.say("%s goes back to version %d", version.GetName(), version.GetVersion())
		}),
	}
}

func (e Env) runNowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "run-now NAME", Short: "Begin a run of a cron job at once", Args: caller.Between(1, "NAME"),
		Long: "Begin a run of a cron job at once. The schedule stays as it is. If a run goes on, the new one is refused, begins beside it\n" +
			"or replaces it, as the job's overlap says.",
		RunE: e.with(func(ctx context.Context, s service, args []string) error {
			status, err := call(ctx, s, s.GetJob, &apiv1.GetJobRequest{Name: args[0]})
			if err != nil {
				return err
			}
			// The number is set, so that a second copy asks for the same run.
			run, err := call(ctx, s, s.RunJobNow, &apiv1.RunJobNowRequest{Name: args[0], Number: status.GetNewestRun() + 1})
			if err != nil {
				return err
			}
			return e.say("run %d of %s begins", run.GetNumber(), args[0])
		}),
	}
}

// before returns the current version of a job and the one before it.
func (s service) before(ctx context.Context, name string) (version, current int32, err error) {
	history, err := call(ctx, s, s.GetJobHistory, &apiv1.GetJobHistoryRequest{Name: name})
	if err != nil {
		return 0, 0, err
	}
	for _, one := range history.GetItems() {
		if current > 0 {
			return one.GetVersion(), current, nil
		}
		if one.GetCurrent() {
			current = one.GetVersion()
		}
	}
	return 0, 0, api.E("job.rollback", api.NotFound, name, fmt.Errorf("no version before the current one is kept"))
}

func (e Env) logsCommand() *cobra.Command {
	var follow, stderr bool
	var index int
	var subJob string
	command := &cobra.Command{
		Use: "logs NAME", Short: "Print the output of a job's task", Args: caller.Between(1, "NAME"),
		Long: "Print the output of a task of the job: of the one that the index has now, or else of the latest that has ended. For\n" +
			"earlier attempts, use 'tender logs TASK' with the names that 'tender get tasks --all' shows.",
	}
	flags := command.Flags()
	flags.BoolVarP(&follow, "follow", "f", false, "keep printing until the task has ended")
	flags.BoolVar(&stderr, "stderr", false, "print its stderr instead of its stdout")
	flags.IntVar(&index, "index", 0, "index of the task")
	flags.StringVar(&subJob, "sub-job", "", "sub-job of the task (default: the first one that has a task with this index)")
	command.RunE = e.with(func(ctx context.Context, s service, args []string) error {
		status, err := call(ctx, s, s.GetJob, &apiv1.GetJobRequest{Name: args[0]})
		if err != nil {
			return err
		}
		for _, task := range status.GetTasks() {
			if int(task.GetIndex()) == index && (subJob == "" || task.GetSubJob() == subJob) {
				return e.Logs(ctx, s.client, status.GetFrameworkId()+"/"+task.GetTaskId(), follow, stderr)
			}
		}
		task, err := s.latestTask(ctx, status, subJob, index)
		switch {
		case err != nil:
			return err
		case task != "":
			return e.Logs(ctx, s.client, task, follow, stderr)
		}
		return caller.Usage(fmt.Errorf("%s has no task of index %d, and the masters know none any more that has ended; "+
			"'tender get tasks --framework %s --all' lists those that they know", args[0], index, status.GetFrameworkId()))
	})
	return command
}

// latestTask returns the task of an index that was launched last, of those that the masters know, as FRAMEWORK/TASK; "":
// they know none.
func (s service) latestTask(ctx context.Context, job *apiv1.JobStatus, subJob string, index int) (ref string, err error) {
	prefix := job.GetFrameworkId() + "/" + job.GetName() + "." // NAME.RUN.SUBJOB.INDEX.ATTEMPT
	tasks, err := client.AllReported(ctx, s.client.Operator().ListTasks, &apiv1.ListTasksRequest{Prefix: prefix, All: true})
	var latest *apiv1.TaskView
	for _, task := range tasks {
		parts := strings.Split(task.GetId(), ".")
		if len(parts) != 5 || parts[3] != strconv.Itoa(index) || subJob != "" && parts[2] != subJob {
			continue
		}
		if latest == nil || latest.GetLaunched().AsTime().Before(task.GetLaunched().AsTime()) {
			latest = task
		}
	}
	if latest == nil {
		return "", err
	}
	return latest.GetFrameworkId() + "/" + latest.GetId(), err
}
