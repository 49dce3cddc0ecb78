package nouns

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/past"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// describer writes one description.
type describer struct {
	client *client.Client
	out    io.Writer
	now    time.Time
}

// Describe writes everything that is known about one item, and below that the tasks that belong to it.
func Describe(ctx context.Context, c *client.Client, w io.Writer, now time.Time, found Item) error {
	d := describer{c, w, now}
	if err := d.describe(ctx, found); err != nil {
		return err
	}
	if of := eventsOf(found); of != "" {
		return past.Tail(ctx, c, w, of)
	}
	return nil
}

// eventsOf returns the thing, as its events name it; "" where nothing tells of it.
func eventsOf(found Item) string {
	switch found.Message.(type) {
	case *apiv1.AgentView:
		return "agent/" + found.ID
	case *apiv1.FrameworkView:
		return "framework/" + found.ID
	case *apiv1.TaskView:
		return "task/" + found.ID
	case *apiv1.MasterView:
		return "master/" + found.ID
	case *apiv1.RoleView:
		return "role/" + found.ID
	case *apiv1.PrincipalView:
		return "principal/" + found.ID
	case *apiv1.SecretView:
		return "secret/" + found.ID
	case *apiv1.TokenView:
		return "token/" + found.ID
	}
	return ""
}

func (d describer) describe(ctx context.Context, found Item) error {
	switch view := found.Message.(type) {
	case *apiv1.AgentView:
		return d.describeAgent(ctx, view)
	case *apiv1.FrameworkView:
		return d.describeFramework(ctx, view)
	case *apiv1.TaskView:
		return show.Fields(d.out, d.taskFields(view))
	case *apiv1.MasterView:
		return show.Fields(d.out, d.masterFields(view))
	case *apiv1.OfferView:
		return show.Fields(d.out, d.offerFields(view))
	case *apiv1.RoleView:
		return show.Fields(d.out, RoleFields(view))
	case *apiv1.PrincipalView:
		return show.Fields(d.out, [][2]string{
			{"Principal", view.GetName()}, {"May", strings.Join(GrantTexts(view.GetGrants()), "\n")}, {"Created", d.moment(view.GetCreated())},
			{"Revoked", d.moment(view.GetRevoked())}, {"Why", view.GetWhy()},
		})
	case *apiv1.SecretView:
		return show.Fields(d.out, [][2]string{
			{"Secret", view.GetName()}, {"Role", view.GetRole()}, {"Set", d.moment(view.GetSet())}, {"By", view.GetBy()},
		})
	case *apiv1.TokenView:
		return show.Fields(d.out, [][2]string{
			{"Token", view.GetId()}, {"Kind", view.GetKind()}, {"Principal", view.GetPrincipal()}, {"State", view.GetState()},
			{"Created", d.moment(view.GetCreated())}, {"Expires", d.moment(view.GetExpires())}, {"Uses", usesOf(view)}, {"By", view.GetBy()},
		})
	}
	return fmt.Errorf("%s can't be described", found.ID)
}

func (d describer) describeAgent(ctx context.Context, v *apiv1.AgentView) error {
	tasks, err := Tasks.List(ctx, d.client, &Query{Agent: v.GetId()})
	if err != nil {
		return err
	}
	err = show.Fields(d.out, [][2]string{
		{"Agent", v.GetId()},
		{"Hostname", v.GetHostname()},
		{"State", stateWithMarks(v) + d.since(v.GetSince())},
		{"Why", v.GetWhy()},
		{"Total", show.Resources(v.GetTotal())},
		{"Allocated", show.Resources(v.GetAllocated())},
		{"Offered", show.Resources(v.GetOffered())},
		{"Free", show.Resources(v.GetFree())},
		{"Really used", usageOf(v.GetUsage())},
		{"Occupied", show.Resources(v.GetOccupied())},
		{"Revocable", show.Resources(v.GetRevocable())},
		{"GPUs", gpusOf(v, tasks)},
		{"Orphaned", orphans(v.GetOrphaned())},
		{"Drain awaits", strings.Join(v.GetUnacknowledged(), ", ")},
		{"Set apart", strings.Join(v.GetApart(), ", ")},
		{"Attributes", words.Pairs(v.GetAttributes())},
		{"Region", v.GetRegion()},
		{"Zone", v.GetZone()},
		{"Address", v.GetAddress()},
		{"Version", v.GetVersion()},
		{"Admitted", d.moment(v.GetAdmitted())},
	})
	if err != nil {
		return err
	}
	return d.printBelow(tasks)
}

// orphans lists volumes that only the agent knows.
func orphans(volumes []*apiv1.OrphanedVolume) string {
	words := make([]string, len(volumes))
	for i, o := range volumes {
		words[i] = fmt.Sprintf("volume %s of role %s, %d MB: %s", o.GetVolume(), o.GetRole(), o.GetSizeMb(), o.GetWhy())
	}
	return strings.Join(words, "; ")
}

func (d describer) describeFramework(ctx context.Context, v *apiv1.FrameworkView) error {
	var demand []string
	for _, one := range v.GetDemand() {
		line := fmt.Sprintf("%d x (%s) in role %s", one.GetCount(), show.Resources(one.GetResources()), one.GetRole())
		if one.GetConstraint() != "" {
			line += " where " + one.GetConstraint()
		}
		line += preferenceOf(one) + spreadOf(one)
		demand = append(demand, line)
	}
	err := show.Fields(d.out, [][2]string{
		{"Framework", v.GetId()},
		{"Name", v.GetName()},
		{"State", v.GetState() + d.since(v.GetSince())},
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
		{"Labels", words.Pairs(v.GetLabels())},
		{"Endpoints", words.Pairs(v.GetEndpoints())},
		{"Session", strconv.FormatUint(v.GetSession(), 10)},
		{"Admitted", d.moment(v.GetAdmitted())},
	})
	if err != nil {
		return err
	}
	return d.tasksBelow(ctx, Query{Framework: v.GetId()})
}

// preferredShown is how many preferred agents are named.
const preferredShown = 5

// preferenceOf returns text such as " preferably on agent-1, agent-2", or nothing.
func preferenceOf(d *apiv1.DemandView) string {
	agents := d.GetPreferred()
	if len(agents) == 0 {
		return ""
	}
	text := " preferably on "
	if d.GetOnlyPreferred() {
		text = " only on "
	}
	return text + words.Some(agents, preferredShown)
}

// spreadOf returns text such as " spread by rack, at most 2 per agent (group web)", or nothing.
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

// localityOf says what waiting for preferred agents has achieved and cost; "" if no task has reported it.
func localityOf(l *apiv1.LocalityView) string {
	tasks := l.GetNode() + l.GetNear() + l.GetAny()
	if tasks == 0 {
		return ""
	}
	text := fmt.Sprintf("%.1f %% of %d tasks on a preferred agent, %d near one, %d elsewhere; waited %s on average, %s at most",
		100*float64(l.GetNode())/float64(tasks), tasks, l.GetNear(), l.GetAny(),
		words.Span((l.GetWaited().AsDuration() / time.Duration(tasks)).Round(100*time.Millisecond)), words.Span(l.GetLongest().AsDuration()))
	if idle := l.GetIdle().AsDuration(); idle > 0 {
		text += fmt.Sprintf("; slots that it let pass stood idle for %s in all", words.Span(idle))
	}
	return text
}

// tasksBelow adds the table of the living tasks that belong to the item.
func (d describer) tasksBelow(ctx context.Context, q Query) error {
	l, err := Tasks.List(ctx, d.client, &q)
	if err != nil {
		return err
	}
	return d.printBelow(l)
}

// printBelow prints a table below the description, if it is not empty.
func (d describer) printBelow(l *Listing) error {
	if len(l.Items) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(d.out); err != nil {
		return err
	}
	return l.Print(d.out, show.AsTable, d.now)
}

func (d describer) taskFields(v *apiv1.TaskView) [][2]string {
	code := ""
	if v.ExitCode != nil {
		code = strconv.Itoa(int(v.GetExitCode()))
	}
	return [][2]string{
		{"Task", TaskRef(v)},
		{"Name", v.GetName()},
		{"Framework", strings.TrimSpace(v.GetFrameworkId() + " " + v.GetFrameworkName())},
		{"Role", v.GetRole()},
		{"Owner", v.GetOwner()},
		{"State", v.GetState() + d.since(v.GetSince())},
		{"Reason", v.GetReason()},
		{"Message", v.GetMessage()},
		{"Healthy", healthOf(v)},
		{"Exit code", code},
		{"Agent", strings.TrimSpace(v.GetAgentId() + " " + v.GetHostname())},
		{"Agent address", v.GetAgentAddress()},
		{"Executor", v.GetExecutorId()},
		{"Resources", show.Resources(v.GetResources())},
		{"GPUs", gpuList(v.GetGpus())},
		{"Really used", usageOf(v.GetUsage())},
		{"Ports", words.Pairs(v.GetPorts())},
		{"Image", v.GetImage()},
		{"Command", commandOf(v.GetCommand())},
		{"Environment", words.Pairs(v.GetCommand().GetEnv())},
		{"Secrets", secretsOf(v.GetSecrets())},
		{"Labels", words.Pairs(v.GetLabels())},
		{"Launched", d.moment(v.GetLaunched())},
		{"Output", outputOf(v)},
	}
}

// outputOf returns where the task's output can be read.
func outputOf(v *apiv1.TaskView) string {
	if v.GetAgentAddress() == "" {
		return ""
	}
	at := "http://" + v.GetAgentAddress() + "/" + path.Join("v1", "logs", v.GetFrameworkId(), v.GetId(), "stdout")
	if executor := api.ExecutorID(v.GetExecutorId()); executor != "" && executor != api.CommandExecutor {
		// A framework's own executor writes for the task: only the executor's output is sure to exist.
		return "tender logs --executor " + TaskRef(v) + "\n" + at + "?executor=1"
	}
	return "tender logs " + TaskRef(v) + "\n" + at
}

func (d describer) masterFields(v *apiv1.MasterView) [][2]string {
	return [][2]string{
		{"Master", v.GetId()},
		{"State", v.GetState() + d.since(v.GetSince())},
		{"Why", v.GetWhy()},
		{"gRPC", v.GetGrpcAddress()},
		{"HTTP", v.GetHttpAddress()},
		{"Raft", v.GetRaftAddress()},
		{"Allocator", v.GetAllocator()},
		{"Applied index", strconv.FormatUint(v.GetAppliedIndex(), 10)},
		{"Snapshot", d.snapshot(v.GetSnapshot())},
		{"Saved", d.moment(v.GetSnapshot().GetSaved())},
		{"Version", v.GetVersion()},
	}
}

func (d describer) snapshot(v *apiv1.SnapshotView) string {
	if v.GetMade() == nil {
		return ""
	}
	return fmt.Sprintf("%s, up to entry %d, %d bytes", d.moment(v.GetMade()), v.GetIndex(), v.GetBytes())
}

func (d describer) offerFields(v *apiv1.OfferView) [][2]string {
	return [][2]string{
		{"Offer", v.GetId()},
		{"Framework", strings.TrimSpace(v.GetFrameworkId() + " " + v.GetFrameworkName())},
		{"Agent", strings.TrimSpace(v.GetAgentId() + " " + v.GetHostname())},
		{"Role", v.GetRole()},
		{"Resources", show.Resources(v.GetResources())},
		{"Since", d.moment(v.GetSince())},
		{"Expires", d.moment(v.GetExpires())},
	}
}

// RoleFields returns the lines that describe a role.
func RoleFields(v *apiv1.RoleView) [][2]string {
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

// since returns text such as " for 12s", or nothing.
func (d describer) since(at *timestamppb.Timestamp) string {
	if age := show.Age(d.now, at); age != "" {
		return " for " + age
	}
	return ""
}

// moment returns a time with its age: "2026-11-21 10:17:44 UTC (12s ago)".
func (d describer) moment(at *timestamppb.Timestamp) string {
	age := show.Age(d.now, at)
	if age == "" {
		return ""
	}
	text := at.AsTime().UTC().Format("2006-01-02 15:04:05 MST")
	if at.AsTime().After(d.now) {
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

// secretsOf says which secrets a task is given, and where it finds them.
func secretsOf(secrets []*apiv1.Secret) string {
	var lines []string
	for _, secret := range secrets {
		place := "$" + secret.GetEnv()
		if secret.GetFile() != "" {
			place = "secrets/" + secret.GetFile()
		}
		lines = append(lines, secret.GetName()+" in "+place)
	}
	return strings.Join(lines, "\n")
}
