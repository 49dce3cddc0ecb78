package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/journal"
	"github.com/tenderhq/tender/allocator/remote"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func allocatorCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{Use: "allocator", Short: "Examine how resources are shared"}
	var policies []string
	replay := &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay a recorded journal with another policy",
		Long: "Replay with another policy what a master's allocator was told, as 'tender master --allocator-journal FILE' (or\n" +
			"'tender dev') recorded it. Tasks ask for the same resources at the same moments and run for as long as they did; they\n" +
			"start when the policy lets them. The column 'recorded' shows what really happened. The longest leadership in the\n" +
			"file is replayed.",
		Example: "  tender allocator replay --policy priority /var/lib/tender/allocator.journal",
		Args:    caller.Exactly("FILE"),
		RunE: func(command *cobra.Command, args []string) error {
			return replayJournal(command.Context(), who, args[0], policies)
		},
	}
	replay.Flags().StringSliceVar(&policies, "policy", []string{"fairshare"}, "policies to run: "+strings.Join(allocator.Names(), ", "))
	add(command, "", replay)
	return command
}

func replayJournal(ctx context.Context, who *caller.Caller, path string, policies []string) error {
	section, torn, err := readJournal(path)
	if err != nil {
		return err
	}
	if torn {
		fmt.Fprintln(who.Stderr, "tender: the end of the journal is torn and left out")
	}
	columns := []string{"recorded (" + section.Policy + ")"}
	reports := []journal.Report{journal.Recorded(section)}
	for _, name := range policies {
		policy, err := allocator.Make(name, section.Config)
		if err != nil {
			return caller.Usage(fmt.Errorf("--policy: %w", err))
		}
		report, err := replayed(ctx, section, policy)
		if err != nil {
			return fmt.Errorf("--policy %s: %w", name, err)
		}
		columns, reports = append(columns, name), append(reports, report)
	}
	if err := writeReports(who.Stdout, columns, reports); err != nil {
		return err
	}
	return replaySection(who, section, policies)
}

// replayed waits for a policy in another process at each place at which a master would not wait.
func replayed(ctx context.Context, section *journal.Section, policy allocator.Allocator) (journal.Report, error) {
	half, is := policy.(*remote.Allocator)
	if !is {
		return journal.Replay(section, policy), nil
	}
	lost := ""
	prompt, err := remote.NewPrompt(ctx, half, func(trouble bool, _, why string) {
		if trouble {
			lost = why
		}
	})
	if err != nil {
		return journal.Report{}, err
	}
	report := journal.Replay(section, prompt)
	prompt.Close() // lost is not used by the other goroutine any more
	if lost != "" {
		return report, fmt.Errorf("it went away meanwhile, so its figures would be wrong: %s", lost)
	}
	return report, ctx.Err()
}

// replaySection returns an error if the recorded policy does not decide as it did.
func replaySection(who *caller.Caller, section *journal.Section, policies []string) error {
	if !section.Whole || !slices.Contains(policies, section.Policy) {
		return nil
	}
	policy, err := allocator.Make(section.Policy, section.Config)
	if err != nil {
		return err
	}
	rounds, same := section.Same(policy)
	_, err = fmt.Fprintf(who.Stdout, "\n%s told exactly the same again: %d of %d answers are identical\n", section.Policy, same, rounds)
	return err
}

// readJournal returns the section with the most steps.
func readJournal(path string) (_ *journal.Section, torn bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sections, torn, err := journal.Read(file)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	if len(sections) == 0 {
		return nil, false, fmt.Errorf("%s: nothing is recorded in it yet", path)
	}
	longest := &sections[0]
	for i := range sections {
		if len(sections[i].Steps) > len(longest.Steps) {
			longest = &sections[i]
		}
	}
	return longest, torn, nil
}

func writeReports(out io.Writer, columns []string, reports []journal.Report) error {
	var rows [][]string
	row := func(name string, cell func(journal.Report) string) {
		cells := []string{name}
		for _, report := range reports {
			cells = append(cells, cell(report))
		}
		rows = append(rows, cells)
	}
	row("time", func(r journal.Report) string { return r.Span.Round(time.Millisecond).String() })
	row("tasks started", func(r journal.Report) string { return fmt.Sprint(r.Started) })
	row("tasks preempted", func(r journal.Report) string { return fmt.Sprint(r.Preempted) })
	for _, kind := range []string{"cpus", "mem"} {
		row(kind+" in use", func(r journal.Report) string { return fmt.Sprintf("%.1f %%", 100*r.Utilisation[kind]) })
	}
	for _, role := range rolesOf(reports) {
		row("share of "+string(role), func(r journal.Report) string { return fmt.Sprintf("%.3f", r.Shares[role]) })
	}
	for _, role := range append([]api.Role{""}, rolesOf(reports)...) {
		name := "wait"
		if role != "" {
			name += " in " + string(role)
		}
		row(name+": mean, p95, longest", func(r journal.Report) string {
			w := r.Waits[role]
			return fmt.Sprintf("%v, %v, %v", short(w.Mean), short(w.P95), short(w.Max))
		})
	}
	return show.Table(out, append([]string{"what"}, columns...), rows)
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func rolesOf(reports []journal.Report) []api.Role {
	all := map[api.Role]bool{}
	for _, report := range reports {
		for role := range report.Shares {
			all[role] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
