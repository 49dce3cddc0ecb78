package cli

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
	"github.com/tenderhq/tender/internal/cli/show"
	"github.com/tenderhq/tender/internal/words"
)

func (a *App) describeCommand() *cobra.Command {
	var format string
	command := &cobra.Command{
		Use:   "describe KIND ID",
		Short: "Show everything known about one of them",
		Long:  "Show everything that the leading master knows about one master, agent, framework, task, offer or role.",
		Example: "  tender describe agent agent-1\n" +
			"  tender describe task framework-3/hello.0",
		Args: exactly("KIND", "ID"),
		ValidArgsFunction: func(command *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			return a.completeKindAndID(command.Context(), args, start)
		},
	}
	command.Flags().StringVarP(&format, "output", "o", "text", "text or json")
	command.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := checkFormat(format, "text", "json"); err != nil {
			return err
		}
		k, err := kindNamed(args[0])
		if err != nil {
			return err
		}
		found, err := k.find(ctx, c, args[1])
		switch {
		case err != nil:
			return err
		case format == "json":
			return show.JSON(a.Stdout, found.message)
		}
		return a.describe(ctx, c, found)
	})
	return command
}

func (a *App) describe(ctx context.Context, c *client.Client, found item) error {
	switch view := found.message.(type) {
	case *apiv1.AgentView:
		return a.describeAgent(ctx, c, view)
	case *apiv1.FrameworkView:
		return a.describeFramework(ctx, c, view)
	case *apiv1.TaskView:
		return show.Fields(a.Stdout, a.taskFields(view))
	case *apiv1.MasterView:
		return show.Fields(a.Stdout, a.masterFields(view))
	case *apiv1.OfferView:
		return show.Fields(a.Stdout, a.offerFields(view))
	case *apiv1.RoleView:
		return show.Fields(a.Stdout, roleFields(view))
	}
	return fmt.Errorf("%s can't be described", found.id)
}

func (a *App) describeAgent(ctx context.Context, c *client.Client, v *apiv1.AgentView) error {
	err := show.Fields(a.Stdout, [][2]string{
		{"Agent", v.GetId()},
		{"Hostname", v.GetHostname()},
		{"State", stateWithMarks(v) + a.since(v.GetSince())},
		{"Why", v.GetWhy()},
		{"Total", show.Resources(v.GetTotal())},
		{"Allocated", show.Resources(v.GetAllocated())},
		{"Offered", show.Resources(v.GetOffered())},
		{"Free", show.Resources(v.GetFree())},
		{"Really used", usageOf(v.GetUsage())},
		{"Occupied", show.Resources(v.GetOccupied())},
		{"Revocable", show.Resources(v.GetRevocable())},
		{"Orphaned", orphans(v.GetOrphaned())},
		{"Attributes", show.Pairs(v.GetAttributes())},
		{"Region", v.GetRegion()},
		{"Zone", v.GetZone()},
		{"Address", v.GetAddress()},
		{"Version", v.GetVersion()},
		{"Admitted", a.moment(v.GetAdmitted())},
	})
	if err != nil {
		return err
	}
	return a.tasksBelow(ctx, c, query{agent: v.GetId()})
}

// orphans are volumes that nobody but the agent knows.
func orphans(volumes []*apiv1.OrphanedVolume) string {
	words := make([]string, len(volumes))
	for i, o := range volumes {
		words[i] = fmt.Sprintf("volume %s of role %s, %d MB: %s", o.GetVolume(), o.GetRole(), o.GetSizeMb(), o.GetWhy())
	}
	return strings.Join(words, "; ")
}

func (a *App) describeFramework(ctx context.Context, c *client.Client, v *apiv1.FrameworkView) error {
	var demand []string
	for _, d := range v.GetDemand() {
		line := fmt.Sprintf("%d x (%s) in role %s", d.GetCount(), show.Resources(d.GetResources()), d.GetRole())
		if d.GetConstraint() != "" {
			line += " where " + d.GetConstraint()
		}
		line += preferenceOf(d) + spreadOf(d)
		demand = append(demand, line)
	}
	err := show.Fields(a.Stdout, [][2]string{
		{"Framework", v.GetId()},
		{"Name", v.GetName()},
		{"State", v.GetState() + a.since(v.GetSince())},
		{"Why", v.GetWhy()},
		{"Principal", v.GetPrincipal()},
		{"Roles", strings.Join(v.GetRoles(), ", ")},
		{"Suppressed", strings.Join(v.GetSuppressed(), ", ")},
		{"Allocated", show.Resources(v.GetAllocated())},
		{"Offered", show.Resources(v.GetOffered())},
		{"Dominant share", show.Percent(v.GetDominantShare())},
		{"Tasks", strconv.Itoa(int(v.GetTasks()))},
		{"Offers", strconv.Itoa(int(v.GetOffers()))},
		{"Demand", strings.Join(demand, "\n")},
		{"Locality", localityOf(v.GetLocality())},
		{"Constraint", v.GetConstraint()},
		{"Least offer", show.Resources(v.GetMinOffer())},
		{"Largest offer", show.Resources(v.GetMaxOffer())},
		{"Revocable", yesOrNothing(v.GetRevocable(), "takes what others leave unused")},
		{"Failover time", spanOf(v.GetFailoverTimeout().AsDuration())},
		{"Labels", show.Pairs(v.GetLabels())},
		{"Endpoints", show.Pairs(v.GetEndpoints())},
		{"Session", strconv.FormatUint(v.GetSession(), 10)},
		{"Admitted", a.moment(v.GetAdmitted())},
	})
	if err != nil {
		return err
	}
	return a.tasksBelow(ctx, c, query{framework: v.GetId()})
}

// preferredShown bounds the agents that are named.
const preferredShown = 5

// preferenceOf is " preferably on agent-1, agent-2", or nothing.
func preferenceOf(d *apiv1.DemandView) string {
	agents := d.GetPreferred()
	if len(agents) == 0 {
		return ""
	}
	text := " preferably on "
	if d.GetOnlyPreferred() {
		text = " only on "
	}
	text += strings.Join(agents[:min(len(agents), preferredShown)], ", ")
	if more := len(agents) - preferredShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// spreadOf is " spread by rack, at most 2 per agent (group web)", or nothing.
func spreadOf(d *apiv1.DemandView) string {
	var places []string
	for _, one := range d.GetSpread() {
		place := strings.TrimPrefix(one.GetBy(), "attribute:")
		if one.GetMost() > 0 {
			places = append(places, fmt.Sprintf("at most %d per %s", one.GetMost(), place))
		} else {
			places = append(places, "spread by "+place)
		}
	}
	if len(places) == 0 {
		return ""
	}
	text := " " + strings.Join(places, ", ")
	if d.GetGroup() != "" {
		text += " (group " + d.GetGroup() + ")"
	}
	return text
}

func yesOrNothing(is bool, text string) string {
	if !is {
		return ""
	}
	return text
}

// localityOf tells what waiting for preferred agents has brought and cost; "" when no
// task said.
func localityOf(l *apiv1.LocalityView) string {
	tasks := l.GetNode() + l.GetNear() + l.GetAny()
	if tasks == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %% of %d tasks on a preferred agent, %d near one, %d elsewhere; waited %s on average, %s at most",
		100*float64(l.GetNode())/float64(tasks), tasks, l.GetNear(), l.GetAny(),
		words.Span((l.GetWaited().AsDuration() / time.Duration(tasks)).Round(100*time.Millisecond)), words.Span(l.GetLongest().AsDuration()))
}

// tasksBelow adds the table of the living tasks that belong to what was described.
func (a *App) tasksBelow(ctx context.Context, c *client.Client, q query) error {
	l, err := listTasks(ctx, c, &q)
	if err != nil || len(l.items) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(a.Stdout); err != nil {
		return err
	}
	return a.print(l, "table")
}

func (a *App) taskFields(v *apiv1.TaskView) [][2]string {
	code := ""
	if v.ExitCode != nil {
		code = strconv.Itoa(int(v.GetExitCode()))
	}
	return [][2]string{
		{"Task", taskRef(v)},
		{"Name", v.GetName()},
		{"Framework", strings.TrimSpace(v.GetFrameworkId() + " " + v.GetFrameworkName())},
		{"Role", v.GetRole()},
		{"State", v.GetState() + a.since(v.GetSince())},
		{"Reason", v.GetReason()},
		{"Message", v.GetMessage()},
		{"Exit code", code},
		{"Agent", strings.TrimSpace(v.GetAgentId() + " " + v.GetHostname())},
		{"Agent address", v.GetAgentAddress()},
		{"Executor", v.GetExecutorId()},
		{"Resources", show.Resources(v.GetResources())},
		{"Really used", usageOf(v.GetUsage())},
		{"Ports", show.Pairs(v.GetPorts())},
		{"Command", commandOf(v.GetCommand())},
		{"Environment", show.Pairs(v.GetCommand().GetEnv())},
		{"Labels", show.Pairs(v.GetLabels())},
		{"Launched", a.moment(v.GetLaunched())},
		{"Output", outputOf(v)},
	}
}

// outputOf is where the task's output can be read.
func outputOf(v *apiv1.TaskView) string {
	if v.GetAgentAddress() == "" {
		return ""
	}
	at := "http://" + v.GetAgentAddress() + "/" + path.Join("v1", "logs", v.GetFrameworkId(), v.GetId(), "stdout")
	if executor := api.ExecutorID(v.GetExecutorId()); executor != "" && executor != api.CommandExecutor {
		// Its own executor writes for it: only that one's output is sure to be there.
		return "tender logs --executor " + taskRef(v) + "\n" + at + "?executor=1"
	}
	return "tender logs " + taskRef(v) + "\n" + at
}

func (a *App) masterFields(v *apiv1.MasterView) [][2]string {
	return [][2]string{
		{"Master", v.GetId()},
		{"State", v.GetState() + a.since(v.GetSince())},
		{"Why", v.GetWhy()},
		{"gRPC", v.GetGrpcAddress()},
		{"HTTP", v.GetHttpAddress()},
		{"Raft", v.GetRaftAddress()},
		{"Allocator", v.GetAllocator()},
		{"Applied index", strconv.FormatUint(v.GetAppliedIndex(), 10)},
		{"Version", v.GetVersion()},
	}
}

func (a *App) offerFields(v *apiv1.OfferView) [][2]string {
	return [][2]string{
		{"Offer", v.GetId()},
		{"Framework", strings.TrimSpace(v.GetFrameworkId() + " " + v.GetFrameworkName())},
		{"Agent", strings.TrimSpace(v.GetAgentId() + " " + v.GetHostname())},
		{"Role", v.GetRole()},
		{"Resources", show.Resources(v.GetResources())},
		{"Since", a.moment(v.GetSince())},
		{"Expires", a.moment(v.GetExpires())},
	}
}

func roleFields(v *apiv1.RoleView) [][2]string {
	return [][2]string{
		{"Role", v.GetRole()},
		{"Weight", strconv.FormatFloat(v.GetWeight(), 'f', -1, 64)},
		{"Priority", strconv.Itoa(int(v.GetPriority()))},
		{"Guarantee", show.Resources(v.GetGuarantee())},
		{"Limit", show.Resources(v.GetLimit())},
		{"Reserved", show.Resources(v.GetReserved())},
		{"Allocated", show.Resources(v.GetAllocated())},
		{"Offered", show.Resources(v.GetOffered())},
		{"Dominant share", show.Percent(v.GetDominantShare())},
		{"Frameworks", strconv.Itoa(int(v.GetFrameworks()))},
	}
}

// since is " for 12s", or nothing.
func (a *App) since(at *timestamppb.Timestamp) string {
	if age := show.Age(a.Now(), at); age != "" {
		return " for " + age
	}
	return ""
}

// moment is a time with its age: "2026-11-21 10:17:44 UTC (12s ago)".
func (a *App) moment(at *timestamppb.Timestamp) string {
	age := show.Age(a.Now(), at)
	if age == "" {
		return ""
	}
	text := at.AsTime().UTC().Format("2006-01-02 15:04:05 MST")
	if at.AsTime().After(a.Now()) {
		return text
	}
	return text + " (" + age + " ago)"
}

func spanOf(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return words.Span(d)
}
