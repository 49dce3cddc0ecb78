package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/view"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func usageCommand(who *caller.Caller) *cobra.Command {
	var span spanFlags
	var by []string
	command := &cobra.Command{
		Use:   "usage",
		Short: "Show who has held and used how much, for 400 days",
		Long: "Show who has held how much, for how long, what agents have measured of it, and how tasks have ended. It is kept by\n" +
			"hours for a month and by days after that, 400 days together. The hour or day in which --since or --until falls counts\n" +
			"whole. What has no row of its own, because there were too many, is summed as (others).\n\n" +
			"Tables show hours, of memory and disk GB hours. JSON and CSV have seconds, of memory and disk MB seconds.",
		Example: "  tender usage --by principal --since 720h\n" +
			"  tender usage --by role,job --since 2026-11-01T00:00 --until 2026-12-01T00:00\n" +
			"  tender usage --by period,framework -o csv",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&by, "by", []string{"role"}, "tell apart by these: role, principal, framework, job, and period for each hour or day")
	span.add(flags)
	format := show.FormatFlag(flags, show.AsTable, show.AsWide, show.AsCSV, show.AsJSON)
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := saidEmpty(flags); err != nil {
			return caller.Usage(err)
		}
		told, err := view.ParseUsageBy(by)
		if err != nil {
			return caller.Usage(fmt.Errorf("--by: %w", err))
		}
		since, until, err := span.read(who.Now())
		if err != nil {
			return caller.Usage(err)
		}
		return who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			rows, _, err := client.All(ctx, c.Operator().ListUsage, 0, &apiv1.ListUsageRequest{By: by, Since: wire.TimeToProto(since), Until: wire.TimeToProto(until)})
			if err != nil {
				return err
			}
			switch {
			case format.Is(show.AsJSON):
				return show.JSON(who.Stdout, &apiv1.ListUsageResponse{Items: rows})
			case format.Is(show.AsCSV):
				return writeUsageCSV(who, rows)
			}
			return writeUsageTable(who, rows, told, format.Is(show.AsWide))
		})(command, args)
	}
	return command
}

// writeUsageTable shows rows in hours. Where periods are not told apart, wide shows from when until when the sums are.
func writeUsageTable(who *caller.Caller, rows []*apiv1.UsageView, by view.UsageBy, wide bool) error {
	columns := []struct {
		header string
		shown  bool
		cell   func(*apiv1.UsageView) string
	}{
		{"FROM", wide || by&view.ByPeriod != 0, func(r *apiv1.UsageView) string { return r.GetBegin().AsTime().Format(time.RFC3339) }},
		{"TO", wide || by&view.ByPeriod != 0, func(r *apiv1.UsageView) string { return r.GetEnd().AsTime().Format(time.RFC3339) }},
		{"ROLE", by&view.ByRole != 0, (*apiv1.UsageView).GetRole},
		{"PRINCIPAL", by&view.ByPrincipal != 0, (*apiv1.UsageView).GetPrincipal},
		{"FRAMEWORK", by&view.ByFramework != 0, (*apiv1.UsageView).GetFrameworkId},
		{"NAME", by&view.ByFramework != 0, (*apiv1.UsageView).GetFrameworkName},
		{"JOB", by&view.ByJob != 0, (*apiv1.UsageView).GetJob},
		{"CPU HOURS", true, func(r *apiv1.UsageView) string { return hoursOf(r.GetAllocated(), "cpus") }},
		{"USED", true, func(r *apiv1.UsageView) string { return hoursOf(r.GetUsed(), "cpus") }},
		{"MEM GB HOURS", true, func(r *apiv1.UsageView) string { return hoursOf(r.GetAllocated(), "mem") }},
		{"USED", true, func(r *apiv1.UsageView) string { return hoursOf(r.GetUsed(), "mem") }},
		{"OTHER HOURS", true, otherHours},
		{"ENDED", true, endsOf},
	}
	var header []string
	cells := make([][]string, len(rows))
	for _, column := range columns {
		if !column.shown {
			continue
		}
		header = append(header, column.header)
		for i, row := range rows {
			cells[i] = append(cells[i], column.cell(row))
		}
	}
	return show.Table(who.Stdout, header, cells)
}

// hoursOf turns seconds of a resource into hours, of what is counted in MB into GB hours.
func hoursOf(seconds map[string]float64, resource string) string {
	amount, is := seconds[resource]
	if !is {
		return ""
	}
	if amount /= 3600; resource == "mem" || resource == "disk" {
		amount /= 1024
	}
	return strconv.FormatFloat(amount, 'f', 3, 64)
}

func otherHours(row *apiv1.UsageView) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(row.GetAllocated())) {
		if name != "cpus" && name != "mem" {
			parts = append(parts, name+" "+hoursOf(row.GetAllocated(), name))
		}
	}
	return strings.Join(parts, ", ")
}

func endsOf(row *apiv1.UsageView) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(row.GetEnded())) {
		parts = append(parts, fmt.Sprintf("%d %s", row.GetEnded()[state], state))
	}
	return strings.Join(parts, ", ")
}

// writeUsageCSV writes all columns, whatever is told apart, in seconds. There is a column for each resource and each state
// that any row has.
func writeUsageCSV(who *caller.Caller, rows []*apiv1.UsageView) error {
	header := []string{"begin", "end", "role", "principal", "framework_id", "framework", "job"}
	allocated, used, ended := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for _, row := range rows {
		note(allocated, row.GetAllocated())
		note(used, row.GetUsed())
		note(ended, row.GetEnded())
	}
	seconds := func(amount float64) string { return strconv.FormatFloat(amount, 'f', -1, 64) }
	table := [][]string{header}
	for _, row := range rows {
		table = append(table, []string{
			row.GetBegin().AsTime().Format(time.RFC3339), row.GetEnd().AsTime().Format(time.RFC3339),
			row.GetRole(), row.GetPrincipal(), row.GetFrameworkId(), show.Clean(row.GetFrameworkName()), show.Clean(row.GetJob()),
		})
	}
	add := func(name string, cell func(*apiv1.UsageView) string) {
		table[0] = append(table[0], name)
		for i, row := range rows {
			table[i+1] = append(table[i+1], cell(row))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allocated)) {
		add(name+"_allocated_seconds", func(r *apiv1.UsageView) string { return seconds(r.GetAllocated()[name]) })
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		add(name+"_used_seconds", func(r *apiv1.UsageView) string { return seconds(r.GetUsed()[name]) })
	}
	for _, state := range slices.Sorted(maps.Keys(ended)) {
		add(strings.ToLower(state), func(r *apiv1.UsageView) string { return strconv.FormatUint(r.GetEnded()[state], 10) })
	}
	return csv.NewWriter(who.Stdout).WriteAll(table)
}

// note adds the names in a map to those that are known.
func note[V any](known map[string]bool, of map[string]V) {
	for name := range of {
		known[name] = true
	}
}
