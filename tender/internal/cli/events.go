package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/change"
	"github.com/tenderhq/tender/master/history"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/past"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// eventsShown is how many events are shown if no limit is given.
const eventsShown = 100

// eventsWish holds the values of the flags.
type eventsWish struct {
	span        spanFlags
	of, by      string
	kinds       []string
	follow, all bool
	limit       int
}

func eventsCommand(who *caller.Caller) *cobra.Command {
	var w eventsWish
	command := &cobra.Command{
		Use:   "events",
		Short: "Show what has happened in the cluster, also before the last failover",
		Long: "Show what has happened, of what, why, and who caused it if nothing else says so; the newest comes last. Every master\n" +
			"keeps it on its disk, for 30 days unless its flags say otherwise. All masters are asked, and what they know is joined;\n" +
			"no leader is needed. What nobody may have kept is said.\n\n" +
			"Without --of, --kind and --all routine is left out: offers, and tasks that start and end as they should.\n\n" +
			"KIND is one of " + strings.Join(kindsOfEvents(), ", ") + ".",
		Example: "  tender events --since 14:00 --until 14:10\n" +
			"  tender events --of agent/agent-7\n" +
			"  tender events --of task/framework-3/web.0 -o wide\n" +
			"  tender events --kind election,master\n" +
			"  tender events -f --all",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&w.follow, "follow", "f", false, "go on with what happens from now on, until interrupted")
	w.span.add(flags)
	flags.StringVar(&w.of, "of", "", "show only what concerns this thing, KIND/NAME, such as agent/ID, task/FRAMEWORK/TASK or principal/ann")
	flags.StringSliceVar(&w.kinds, "kind", nil, "show only events of these kinds of things")
	flags.StringVar(&w.by, "by", "", "show only what this one has caused: a principal, a framework, an agent or a master")
	flags.BoolVarP(&w.all, "all", "a", false, "show routine too")
	flags.IntVar(&w.limit, "limit", eventsShown, "show at most this many, the newest ones (0 = all)")
	format := show.FormatFlag(flags, show.AsText, show.AsWide, show.AsJSON)
	completeFlag(command, "of", completeThings(who, kindsOfEvents()))
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := saidEmpty(flags); err != nil {
			return caller.Usage(err)
		}
		query, err := eventsQuery(who, w)
		if err != nil {
			return caller.Usage(err)
		}
		return who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return showEvents(ctx, who, c, query, w.follow, format)
		})(command, args)
	}
	return command
}

func kindsOfEvents() []string { return wire.Texts(change.Kinds) }

func eventsQuery(who *caller.Caller, w eventsWish) (q history.Query, err error) {
	if w.limit < 0 {
		return q, fmt.Errorf("--limit is %d; write how many are wanted, or 0 for all", w.limit)
	}
	known := kindsOfEvents()
	for _, kind := range w.kinds {
		if !slices.Contains(known, kind) {
			return q, fmt.Errorf("--kind: %w", caller.UnknownWord("kind", kind, known))
		}
	}
	if kind, name, named := strings.Cut(w.of, "/"); w.of != "" {
		if !named || name == "" {
			return q, fmt.Errorf("--of: %q is not KIND/NAME, such as agent/agent-7", w.of)
		}
		if !slices.Contains(known, kind) {
			return q, fmt.Errorf("--of: %w", caller.UnknownWord("kind", kind, known))
		}
	}
	q = history.Query{Of: w.of, Kinds: w.kinds, By: w.by, NotableOnly: !w.all && w.of == "" && len(w.kinds) == 0, Limit: w.limit}
	if q.Since, q.Until, err = w.span.read(who.Now()); err == nil && w.follow && !q.Until.IsZero() {
		err = fmt.Errorf("-f goes on with what happens from now on, and --until ends before; leave one of them out")
	}
	return q, err
}

func showEvents(ctx context.Context, who *caller.Caller, c *client.Client, q history.Query, follow bool, format *show.Format) error {
	var from wire.Cursor
	if follow { // from here on the watch tells
		var err error
		if from, err = past.Newest(ctx, c); err != nil {
			return err
		}
	}
	answer, err := past.Read(ctx, c, q)
	if err != nil {
		return err
	}
	each := func(e *apiv1.Event) error {
		if at := past.Cursor(e); at.Compare(from) > 0 {
			from = at
		}
		return showEvent(who, e, format)
	}
	if format.Is(show.AsJSON) && !follow {
		if err := show.JSON(who.Stdout, &apiv1.ListEventsResponse{Items: answer.Events, Gaps: answer.Missing()}); err != nil {
			return err
		}
	} else {
		for _, e := range answer.Events {
			if err := each(e); err != nil {
				return err
			}
		}
		tellMissingEvents(who, answer, follow)
	}
	if !follow {
		return nil
	}
	return past.Follow(ctx, c, q, from, func(e *apiv1.Event) error {
		if past.Cursor(e).Compare(from) <= 0 {
			return nil // it was in the list already
		}
		return each(e)
	}, func(why string) { fmt.Fprintln(who.Stderr, show.Clean(why)) })
}

// showEvent prints one event, as one line in each format.
func showEvent(who *caller.Caller, e *apiv1.Event, format *show.Format) error {
	if format.Is(show.AsJSON) {
		return show.JSONLine(who.Stdout, e)
	}
	_, err := fmt.Fprintln(who.Stdout, past.Line(e, format.Is(show.AsWide)))
	return err
}

func tellMissingEvents(who *caller.Caller, answer *past.Answer, follow bool) {
	switch {
	case answer.More:
		fmt.Fprintln(who.Stderr, "there are older ones; --limit has cut the list")
	case len(answer.Events) == 0 && !follow:
		fmt.Fprintln(who.Stderr, "no events")
	}
	for _, sentence := range answer.Missing() {
		fmt.Fprintln(who.Stderr, show.Clean(sentence))
	}
}
