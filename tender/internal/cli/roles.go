package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/allocator/priority"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// roleCommands returns the commands that show and change the settings of a role.
func roleCommands(who *caller.Caller) []*cobra.Command {
	weight := roleCommand(who, "weight ROLE [WEIGHT]", "Show or set the weight of a role",
		"Show or set the weight of a role. Sibling roles are due shares in proportion to their weights. Default 1.",
		"WEIGHT", setWeight)
	ranks := roleCommand(who, "priority ROLE [PRIORITY]", "Show or set the priority of a role",
		"Show or set the priority of a role, for the allocator 'priority'. Higher priorities are served first. Default 0.",
		"PRIORITY", setPriority)
	return []*cobra.Command{weight, ranks, quotaCommand(who)}
}

func roleCommand(
	who *caller.Caller,
	use, short, long, value string, set func(*apiv1.SetRoleRequest, string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: caller.Between(1, "ROLE", value), ValidArgsFunction: completeIDs(who, "roles"),
		RunE: func(command *cobra.Command, args []string) error {
			request := &apiv1.SetRoleRequest{Role: args[0]}
			if err := api.Role(args[0]).Check(); err != nil {
				return caller.Usage(err)
			}
			if len(args) == 2 {
				if err := set(request, args[1]); err != nil {
					return caller.Usage(err)
				}
			}
			return setRole(who, command, request, len(args) == 2)
		},
	}
}

func setWeight(request *apiv1.SetRoleRequest, text string) error {
	weight, err := strconv.ParseFloat(text, 64)
	if err != nil || registry.CheckWeight(weight) != nil {
		return fmt.Errorf("weight %q is wrong; write a number from 0.000001 to 1000000, such as 2 or 0.5", text)
	}
	request.Weight = &weight
	return nil
}

func setPriority(request *apiv1.SetRoleRequest, text string) error {
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("priority %q is wrong; write a whole number from %d to %d, such as 10; the higher one is served first",
			text, math.MinInt32, math.MaxInt32)
	}
	rank := int32(number)
	request.Priority = &rank
	return nil
}

func quotaCommand(who *caller.Caller) *cobra.Command {
	var guarantee, limit string
	var force bool
	command := &cobra.Command{
		Use:   "quota ROLE",
		Short: "Show or set the guarantee and the limit of a role",
		Long: "Show or set the guarantee and the limit of a role and all roles below it. What is guaranteed is kept free for the role;\n" +
			"more than the limit it never gets. What you write replaces the whole guarantee or the whole limit, with all kinds of\n" +
			"resources; what was there before is printed. 'none' removes it. A limit of zero (cpus:0) freezes the role.\n\n" +
			"A guarantee that all agents together could not meet is refused, because what is missing would be held back from all\n" +
			"other roles; use --force if more agents will be added. So is a limit above that of a role above, and, without --force,\n" +
			"one below that of a role below. A limit takes nothing away from tasks that run.",
		Example: "  tender quota eng --guarantee 'cpus:8;mem:16384' --limit 'cpus:32'\n" +
			"  tender quota eng --limit none",
		Args: caller.Exactly("ROLE"), ValidArgsFunction: completeIDs(who, "roles"),
	}
	command.Flags().StringVar(&guarantee, "guarantee", "", "resources such as 'cpus:8;mem:16384', or none")
	command.Flags().StringVar(&limit, "limit", "", "resources such as 'cpus:32', or none")
	command.Flags().BoolVar(&force, "force", false, "allow a guarantee that is more than all agents have together, and a limit below that of a role below")
	command.RunE = func(command *cobra.Command, args []string) error {
		request := &apiv1.SetRoleRequest{Role: args[0], Force: force}
		err := errors.Join(
			api.Role(args[0]).Check(),
			setQuota(command, "guarantee", guarantee, &request.Guarantee),
			setQuota(command, "limit", limit, &request.Limit),
		)
		if err != nil {
			return caller.Usage(err)
		}
		return setRole(who, command, request, request.Guarantee != nil || request.Limit != nil)
	}
	return command
}

func setQuota(command *cobra.Command, name, text string, into **string) error {
	if !command.Flags().Changed(name) {
		return nil
	}
	if text != "none" {
		resources, err := settings.ParseResources(text)
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		if resources.IsZero() && (name != "limit" || strings.TrimSpace(text) == "") {
			return fmt.Errorf("--%s is empty; write resources such as 'cpus:8', or none to take it away", name)
		}
	}
	*into = &text
	return nil
}

// setRole changes the role, if there is something to change, and shows it.
func setRole(who *caller.Caller, command *cobra.Command, request *apiv1.SetRoleRequest, change bool) error {
	return who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if change {
			before, err := findRole(ctx, c, request.GetRole())
			if err != nil {
				return err
			}
			view, err := c.Operator().SetRole(ctx, request)
			if err != nil {
				return err
			}
			if err := show.Fields(who.Stdout, changedFields(before, view)); err != nil {
				return err
			}
			if request.Limit != nil {
				for _, over := range whatIsOver(view) {
					fmt.Fprintln(who.Stderr, over)
				}
			}
			return errors.Join(noteNewRole(ctx, who, c, view), notePriority(ctx, who, c, request))
		}
		view, err := findRole(ctx, c, request.GetRole())
		if err != nil {
			return err
		}
		if view != nil {
			return show.Fields(who.Stdout, nouns.RoleFields(view))
		}
		return fmt.Errorf("nobody uses role %q and nothing is set for it; weight 1, priority 0 and no quota hold", request.GetRole())
	})(command, nil)
}

// findRole returns the role as it is; nil if nobody uses it and nothing is set for it.
func findRole(ctx context.Context, c *client.Client, name string) (*apiv1.RoleView, error) {
	l, err := nouns.Roles.List(ctx, c, &nouns.Query{Prefix: name})
	if err != nil {
		return nil, err
	}
	for _, item := range l.Items {
		if item.ID == name {
			return item.Message.(*apiv1.RoleView), nil
		}
	}
	return nil, nil
}

// roleIsKnown refuses the name of a role that nobody has set, and of which and below which nobody is.
func roleIsKnown(ctx context.Context, c *client.Client, name string) error {
	l, err := nouns.Roles.List(ctx, c, &nouns.Query{Prefix: name})
	if err != nil {
		return err
	}
	for _, item := range l.Items {
		if item.ID == name || strings.HasPrefix(item.ID, name+"/") {
			return nil
		}
	}
	return fmt.Errorf("no role is called %q; 'tender get roles' lists them", name)
}

// changedFields shows a role that was changed, with what its settings were before; nil: nothing was set.
func changedFields(before, after *apiv1.RoleView) [][2]string {
	if before == nil {
		before = &apiv1.RoleView{Weight: 1}
	}
	was := make(map[string]string)
	for _, field := range nouns.RoleFields(before) {
		was[field[0]] = field[1]
	}
	fields := nouns.RoleFields(after)
	for i, field := range fields {
		if old := was[field[0]]; slices.Contains([]string{"Weight", "Priority", "Guarantee", "Limit"}, field[0]) && old != field[1] {
			fields[i][1] = cmp.Or(field[1], "none") + " (was " + cmp.Or(old, "none") + ")"
		}
	}
	return fields
}

// whatIsOver says of what the role has more than its limit allows.
func whatIsOver(view *apiv1.RoleView) (list []string) {
	has := view.GetAllocated().GetFields()
	for _, kind := range slices.Sorted(maps.Keys(view.GetLimit().GetFields())) {
		if most := view.GetLimit().GetFields()[kind].GetNumberValue(); most > 0 && has[kind].GetNumberValue() > most {
			list = append(list, fmt.Sprintf("role %s has %s %v already; its tasks run on, and it gets no more until it has less than %v",
				view.GetRole(), kind, has[kind].GetNumberValue(), most))
		}
	}
	return list
}

// notePriority says that a priority was set that the cluster's allocator ignores.
func notePriority(ctx context.Context, who *caller.Caller, c *client.Client, request *apiv1.SetRoleRequest) error {
	if request.Priority == nil {
		return nil
	}
	masters, err := c.Operator().ListMasters(ctx, &apiv1.ListRequest{})
	if err != nil {
		return err
	}
	for _, m := range masters.GetItems() {
		if m.GetState() == "leader" && m.GetAllocator() == fairshare.Name {
			fmt.Fprintf(who.Stderr, "the masters share resources by the allocator %s, which has no priorities: this one counts "+
				"when they are started with --allocator %s\n", fairshare.Name, priority.Name)
		}
	}
	return nil
}

// noteNewRole says that no framework uses the role that was changed, which may be a slip.
func noteNewRole(ctx context.Context, who *caller.Caller, c *client.Client, view *apiv1.RoleView) error {
	if view.GetFrameworks() > 0 {
		return nil
	}
	l, err := nouns.Roles.List(ctx, c, &nouns.Query{})
	if err != nil {
		return err
	}
	var used []string
	for _, item := range l.Items {
		if item.Message.(*apiv1.RoleView).GetFrameworks() > 0 {
			used = append(used, item.ID)
		}
	}
	text := fmt.Sprintf("role %s is new: no framework has subscribed to it yet", view.GetRole())
	if closest := words.Closest(view.GetRole(), used); closest != "" {
		text += fmt.Sprintf("; did you mean %s?", closest)
	}
	fmt.Fprintln(who.Stderr, text)
	return nil
}
