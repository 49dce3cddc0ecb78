package jobcmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/past"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func (e Env) listCommand() *cobra.Command {
	var all bool
	var prefix string
	command := &cobra.Command{Use: "list", Short: "List jobs", Args: caller.Between(0)}
	command.Flags().BoolVarP(&all, "all", "a", false, "list also those that have ended")
	command.Flags().StringVar(&prefix, "prefix", "", "list only those whose names begin with this")
	format := show.FormatFlag(command.Flags(), show.AsTable, show.AsJSON)
	command.RunE = e.with(func(ctx context.Context, s service, _ []string) error {
		list := func(ctx context.Context, r *apiv1.ListJobsRequest, _ ...grpc.CallOption) (*apiv1.ListJobsResponse, error) {
			return call(ctx, s, s.ListJobs, r)
		}
		items, _, err := client.All(ctx, list, 0, &apiv1.ListJobsRequest{Prefix: prefix, All: all})
		if err != nil {
			return err
		}
		if format.Is(show.AsJSON) {
			return show.JSON(e.Stdout, &apiv1.ListJobsResponse{Items: items})
		}
		return e.showList(items, all)
	})
	return command
}

func (e Env) showList(items []*apiv1.JobStatus, all bool) error {
	if len(items) == 0 {
		if all {
			return e.say("no jobs; 'tender job submit FILE' begins one")
		}
		return e.say("no jobs run; --all lists those that have ended")
	}
	return nouns.ListingOfJobs(items).Print(e.Stdout, show.AsTable, e.Now())
}

func number(n int32) string { return strconv.Itoa(int(n)) }

func (e Env) statusCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "status NAME", Short: "Show a job, its tasks and where they are, and why some of them wait", Args: caller.Between(1, "NAME"),
	}
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	command.RunE = e.with(func(ctx context.Context, s service, args []string) error {
		return e.status(ctx, s, args[0], format)
	})
	return command
}

func (e Env) status(ctx context.Context, s service, name string, format *show.Format) error {
	status, err := call(ctx, s, s.GetJob, &apiv1.GetJobRequest{Name: name})
	switch {
	case err != nil:
		return err
	case format.Is(show.AsJSON):
		return show.JSON(e.Stdout, status)
	}
	return e.showStatus(status)
}

// Describe shows a job and, unless programs read it, what has happened to it lately.
func (e Env) Describe(ctx context.Context, c *client.Client, name string, format *show.Format) error {
	err := e.status(ctx, service{c.Jobs(), c, e.Stderr, ""}, name, format)
	if err != nil || format.Is(show.AsJSON) {
		return err
	}
	return past.Tail(ctx, c, e.Stdout, "job/"+name)
}

func (e Env) showStatus(j *apiv1.JobStatus) error {
	err := show.Fields(e.Stdout, [][2]string{
		{"Name", j.GetName()}, {"Role", j.GetRole()}, {"Owner", j.GetOwner()}, {"Type", j.GetType()}, {"Phase", j.GetPhase()}, {"Why", j.GetWhy()}, {"Version", number(j.GetVersion())},
		{"Change", changeOf(j.GetRoll())}, {"Next run", e.nextRun(j)}, {"Submitted", show.Age(e.Now(), j.GetSubmitted()) + " ago"}, {"Ended", e.ago(j)},
	})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, one := range j.GetSubJobs() {
		rows = append(rows, []string{one.GetName(), number(one.GetTasks()), number(one.GetWaiting()), number(one.GetPausing()), number(one.GetRunning()),
			number(one.GetDone()), number(one.GetFailed()), one.GetState()})
	}
	if len(rows) > 0 { // a cron job has no tasks between its runs
		fmt.Fprintln(e.Stdout)
		if err := show.Table(e.Stdout, []string{"SUB-JOB", "TASKS", "WAITING", "PAUSING", "RUNNING", "DONE", "FAILED", "STATE"}, rows); err != nil {
			return err
		}
	}
	if err := e.showRuns(j.GetRuns()); err != nil {
		return err
	}
	if err := e.showTasks(j.GetTasks()); err != nil {
		return err
	}
	if len(j.GetWaits()) > 0 {
		fmt.Fprintln(e.Stdout, "\nSome wait. The masters say why:")
	}
	for _, line := range j.GetWaits() {
		fmt.Fprintln(e.Stdout, "  "+show.Clean(line))
	}
	if len(j.GetNotes()) > 0 {
		fmt.Fprintln(e.Stdout)
	}
	for _, note := range j.GetNotes() {
		fmt.Fprintf(e.Stdout, "%s ago: %s\n", show.Age(e.Now(), note.GetAt()), show.Clean(note.GetText()))
	}
	return nil
}

func (e Env) ago(j *apiv1.JobStatus) string {
	if age := show.Age(e.Now(), j.GetEnded()); age != "" {
		return age + " ago"
	}
	return ""
}

// nextRun returns when a cron job's next run is due.
func (e Env) nextRun(j *apiv1.JobStatus) string {
	if j.GetNextRun() == nil {
		return ""
	}
	at := j.GetNextRun().AsTime()
	return fmt.Sprintf("%s, in %v", at.Format(time.RFC3339), max(0, at.Sub(e.Now())).Round(time.Second))
}

func (e Env) showRuns(runs []*apiv1.JobRun) error {
	if len(runs) == 0 {
		return nil
	}
	var rows [][]string
	for _, one := range slices.Backward(runs) {
		rows = append(rows, []string{number(one.GetNumber()), one.GetDue().AsTime().Format(time.RFC3339), number(one.GetVersion()), one.GetState(),
			one.GetEnded().AsTime().Sub(one.GetBegan().AsTime()).Round(time.Second).String(), number(one.GetDone()), number(one.GetFailed())})
	}
	fmt.Fprintln(e.Stdout)
	return show.Table(e.Stdout, []string{"RUN", "DUE", "VERSION", "STATE", "TOOK", "DONE", "FAILED"}, rows)
}

func changeOf(r *apiv1.JobRoll) string {
	switch {
	case r == nil:
		return ""
	case r.GetFrom() == 0:
		return fmt.Sprintf("it begins: %d of %d tasks run, and have to prove themselves", r.GetTrying(), r.GetOf())
	case r.GetStopped():
		return fmt.Sprintf("stopped: %d of %d run version %d", r.GetChanged(), r.GetOf(), r.GetTo())
	case r.GetBack():
		return fmt.Sprintf("it goes back to version %d: %d of %d run it, %d have to prove themselves", r.GetTo(), r.GetChanged(), r.GetOf(), r.GetTrying())
	}
	return fmt.Sprintf("to version %d: %d of %d run it, %d have to prove themselves", r.GetTo(), r.GetChanged(), r.GetOf(), r.GetTrying())
}

// tasksShown is how many tasks are shown; the others are counted.
const tasksShown = 50

func (e Env) showTasks(tasks []*apiv1.JobTask) error {
	if len(tasks) == 0 {
		return nil
	}
	var rows [][]string
	for _, one := range tasks[:min(len(tasks), tasksShown)] {
		var ports []string
		for _, name := range slices.Sorted(maps.Keys(one.GetPorts())) {
			ports = append(ports, fmt.Sprintf("%s=%d", name, one.GetPorts()[name]))
		}
		state := one.GetState()
		if state == "" {
			state = "asked about"
		}
		if one.GetCopy() {
			state += ", a copy"
		}
		rows = append(rows, []string{one.GetSubJob(), number(one.GetIndex()), one.GetTaskId(), state, one.GetAgentId(), one.GetHostname(),
			number(one.GetVersion()), show.Age(e.Now(), one.GetSince()), strings.Join(ports, ","), one.GetWhy()})
	}
	fmt.Fprintln(e.Stdout)
	err := show.Table(e.Stdout, []string{"SUB-JOB", "INDEX", "TASK", "STATE", "AGENT", "HOSTNAME", "VERSION", "AGE", "PORTS", "WHY"}, rows)
	if err == nil && len(tasks) > tasksShown {
		err = e.say("… and %d more; -o json has all", len(tasks)-tasksShown)
	}
	return err
}

func (e Env) historyCommand() *cobra.Command {
	command := &cobra.Command{Use: "history NAME", Short: "List the versions of a job that are kept", Args: caller.Between(1, "NAME")}
	format := show.FormatFlag(command.Flags(), show.AsTable, show.AsJSON)
	command.RunE = e.with(func(ctx context.Context, s service, args []string) error {
		history, err := call(ctx, s, s.GetJobHistory, &apiv1.GetJobHistoryRequest{Name: args[0]})
		switch {
		case err != nil:
			return err
		case format.Is(show.AsJSON):
			return show.JSON(e.Stdout, history)
		}
		var rows [][]string
		for _, one := range history.GetItems() {
			current, mark, why := "", "", one.GetWhy()
			if one.GetCurrent() {
				current = "yes"
			}
			switch bad := one.GetBad(); {
			case bad != "":
				mark, why = "bad", why+"; "+bad
			case one.GetProven():
				mark = "proven"
			}
			rows = append(rows, []string{number(one.GetVersion()), current, mark, one.GetOwner(), show.Age(e.Now(), one.GetAt()), why})
		}
		return show.Table(e.Stdout, []string{"VERSION", "CURRENT", "MARK", "OWNER", "AGE", "WHY"}, rows)
	})
	return command
}
