package jobcmd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func (e Env) watchCommand() *cobra.Command {
	var prefix string
	command := &cobra.Command{
		Use: "watch [NAME]", Short: "Follow a job, or all of them: a line for each change", Args: caller.Between(0, "NAME"),
		Long: "Follow a job until it has ended. Like 'tender job run', the command exits with 1 if the job has failed. Without a name\n" +
			"it follows all jobs, including those that begin later. Ctrl-C ends only the printing; the jobs go on.\n\n" +
			"Changes are printed even while job managers and masters fail and are replaced. If several changes follow each other\n" +
			"quickly, only the last is certain to be printed. With -o json each line is a job as 'tender job status -o json' shows\n" +
			"it; without a name, jobs are printed without their tasks, and the phase of a deleted job is DELETED.",
		Example: "  tender job watch web\n" +
			"  tender job watch --prefix nightly- -o json",
	}
	command.Flags().StringVar(&prefix, "prefix", "", "without NAME: follow the jobs whose names begin with this")
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	command.RunE = e.with(func(ctx context.Context, s service, args []string) error {
		if len(args) == 0 {
			return s.followAll(ctx, prefix, newWatchAll(e, format.Is(show.AsJSON)).see)
		}
		if prefix != "" {
			return caller.Usage(errors.New("--prefix chooses among all jobs; leave it out, or the name"))
		}
		w := &watchOne{env: e, json: format.Is(show.AsJSON)}
		return s.follow(ctx, args[0], w.see)
	})
	return command
}

// watchOne prints the changes of one job.
type watchOne struct {
	env  Env
	json bool
	told *news            // nil: nothing was printed yet
	last *apiv1.JobStatus // the last one that was printed as JSON
}

// see prints what has changed. over says that the job has ended.
func (w *watchOne) see(status *apiv1.JobStatus) (over bool, err error) {
	switch {
	case w.json:
		if !proto.Equal(status, w.last) {
			w.last, err = status, show.JSONLine(w.env.Stdout, status)
		}
	case w.told == nil:
		w.told = newNews(time.Time{})
		err = errors.Join(w.env.sayIs(status), w.env.tell("", w.told.begin(status)))
	default:
		err = w.env.tell("", w.told.of(status))
	}
	if err != nil {
		return true, err
	}
	return ended(status)
}

// sayIs prints what a job is.
func (e Env) sayIs(status *apiv1.JobStatus) error {
	return e.say("%s is version %d (%s)", status.GetName(), status.GetVersion(), status.GetPhase())
}

// tell prints lines after a word.
func (e Env) tell(before string, lines []string) error {
	for _, line := range lines {
		if err := e.say("%s%s", before, show.Clean(line)); err != nil {
			return err
		}
	}
	return nil
}

// Rows has w show the jobs that have not ended, and then what changes of any, until ctx ends.
func Rows(ctx context.Context, who *caller.Caller, c *client.Client, w *nouns.Watcher) error {
	s := service{apiv1.NewJobServiceClient(c), c, who.Stderr, ""}
	var picture []*apiv1.JobStatus
	whole, begun := false, false
	over := make(map[string]bool) // those that had ended when it began
	return s.followAll(ctx, w.Query.Prefix, func(anew bool, news *apiv1.WatchJobsResponse) (bool, error) {
		if anew {
			picture, whole = nil, false
		}
		picture = append(picture, slices.DeleteFunc(news.GetItems(), func(status *apiv1.JobStatus) bool {
			if is, _ := ended(status); is && !begun { // an error only says that it has failed
				over[status.GetName()] = true
			}
			return over[status.GetName()]
		})...)
		switch {
		case whole:
			items := nouns.ListingOfJobs(picture).Items
			picture = nil
			return false, errors.Join(w.Saw(items, nil), w.Gone(news.GetRemovedNames(), nil))
		case news.GetComplete():
			list := nouns.ListingOfJobs(picture)
			picture, whole, begun = nil, true, true
			return false, w.Listed(list, nil)
		}
		return false, nil
	})
}

// watchAll prints the changes of all jobs.
type watchAll struct {
	env   Env
	json  bool
	begun bool                        // the picture with which the watch begins is complete
	told  map[string]*news            // by job, for text
	shown map[string]*apiv1.JobStatus // by job: what was seen of it last
	left  map[string]bool             // jobs that another manager's picture has not contained yet; nil: that is complete
}

func newWatchAll(e Env, asJSON bool) *watchAll {
	return &watchAll{env: e, json: asJSON, told: make(map[string]*news), shown: make(map[string]*apiv1.JobStatus)}
}

// see prints what has changed.
func (w *watchAll) see(anew bool, news *apiv1.WatchJobsResponse) (over bool, err error) {
	if anew {
		w.left = make(map[string]bool)
		for name := range w.shown { // order: irrelevant because the result is a set
			w.left[name] = true
		}
	}
	for _, status := range news.GetItems() {
		delete(w.left, status.GetName())
		if err := w.seeOne(status); err != nil {
			return true, err
		}
	}
	removed := news.GetRemovedNames()
	if news.GetComplete() {
		removed = slices.Concat(removed, slices.Sorted(maps.Keys(w.left)))
		w.left, w.begun = nil, true
	}
	for _, name := range removed {
		if err := w.seeRemoved(name); err != nil {
			return true, err
		}
	}
	return false, nil
}

func (w *watchAll) seeOne(status *apiv1.JobStatus) error {
	name := status.GetName()
	before := w.shown[name]
	if proto.Equal(status, before) {
		return nil
	}
	w.shown[name] = status
	over, _ := ended(status) // an error only says that it has failed
	if over && !w.begun {
		w.told[name] = newNews(time.Time{})
		w.told[name].begin(status) // its end is not news
		return nil
	}
	if w.json {
		return show.JSONLine(w.env.Stdout, status)
	}
	told := w.told[name]
	if told != nil {
		return w.env.tell(name+": ", told.of(status))
	}
	told = newNews(time.Time{})
	w.told[name] = told
	lines := told.of
	if !w.begun {
		lines = told.begin
	}
	return errors.Join(w.env.sayIs(status), w.env.tell(name+": ", lines(status)))
}

func (w *watchAll) seeRemoved(name string) error {
	if w.shown[name] == nil {
		return nil // nothing was printed about it before
	}
	delete(w.shown, name)
	delete(w.told, name)
	if w.json {
		return show.JSONLine(w.env.Stdout, &apiv1.JobStatus{Name: name, Phase: "DELETED"})
	}
	return w.env.tell(name+": ", []string{"it is deleted"})
}
