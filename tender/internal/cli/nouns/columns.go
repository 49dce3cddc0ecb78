package nouns

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// The columns are an interface too: scripts cut them by position. So new ones are added at the end or to -o wide.

var masterLooks = looks[*apiv1.MasterView]{(*apiv1.MasterView).GetId, nil, []column[*apiv1.MasterView]{
	text("MASTER", (*apiv1.MasterView).GetId),
	text("STATE", (*apiv1.MasterView).GetState),
	text("GRPC", (*apiv1.MasterView).GetGrpcAddress),
	text("HTTP", (*apiv1.MasterView).GetHttpAddress),
	text("VERSION", (*apiv1.MasterView).GetVersion),
	text("WHY", (*apiv1.MasterView).GetWhy),
	wide(text("RAFT", (*apiv1.MasterView).GetRaftAddress)),
	wide(text("ALLOCATOR", (*apiv1.MasterView).GetAllocator)),
	wide(text("INDEX", func(m *apiv1.MasterView) string { return indexText(m.GetAppliedIndex()) })),
	wide(aged("SINCE", (*apiv1.MasterView).GetSince)),
	wide(aged("SNAPSHOT", func(m *apiv1.MasterView) *timestamppb.Timestamp { return m.GetSnapshot().GetMade() })),
	wide(text("SNAPSHOT-INDEX", func(m *apiv1.MasterView) string { return indexText(m.GetSnapshot().GetIndex()) })),
}}

var agentLooks = looks[*apiv1.AgentView]{(*apiv1.AgentView).GetId, (*apiv1.AgentView).GetHostname, []column[*apiv1.AgentView]{
	text("AGENT", (*apiv1.AgentView).GetId),
	text("HOSTNAME", (*apiv1.AgentView).GetHostname),
	text("STATE", stateWithMarks),
	aged("SINCE", (*apiv1.AgentView).GetSince),
	text("TASKS", TasksOf),
	text("FREE", func(a *apiv1.AgentView) string { return show.Resources(a.GetFree()) }),
	text("TOTAL", func(a *apiv1.AgentView) string { return show.Resources(a.GetTotal()) }),
	text("WHY", (*apiv1.AgentView).GetWhy),
	wide(text("USED", func(a *apiv1.AgentView) string { return usageOf(a.GetUsage()) })),
	wide(text("ATTRIBUTES", func(a *apiv1.AgentView) string { return words.Pairs(a.GetAttributes()) })),
	wide(text("ADDRESS", (*apiv1.AgentView).GetAddress)),
	wide(text("VERSION", (*apiv1.AgentView).GetVersion)),
	wide(text("OCCUPIED", func(a *apiv1.AgentView) string { return show.Resources(a.GetOccupied()) })),
}}

var frameworkLooks = looks[*apiv1.FrameworkView]{(*apiv1.FrameworkView).GetId, (*apiv1.FrameworkView).GetName, []column[*apiv1.FrameworkView]{
	text("FRAMEWORK", (*apiv1.FrameworkView).GetId),
	text("NAME", (*apiv1.FrameworkView).GetName),
	text("STATE", (*apiv1.FrameworkView).GetState),
	aged("SINCE", (*apiv1.FrameworkView).GetSince),
	text("ROLES", func(f *apiv1.FrameworkView) string { return strings.Join(f.GetRoles(), ",") }),
	text("TASKS", func(f *apiv1.FrameworkView) string { return strconv.Itoa(int(f.GetTasks())) }),
	text("OFFERS", func(f *apiv1.FrameworkView) string { return strconv.Itoa(int(f.GetOffers())) }),
	text("SHARE", func(f *apiv1.FrameworkView) string { return show.Percent(f.GetDominantShare()) }),
	wide(text("ALLOCATED", func(f *apiv1.FrameworkView) string { return show.Resources(f.GetAllocated()) })),
	wide(text("OFFERED", func(f *apiv1.FrameworkView) string { return show.Resources(f.GetOffered()) })),
	wide(text("DEMAND", demandOf)),
	wide(text("WHY", (*apiv1.FrameworkView).GetWhy)),
	wide(text("LEAST OFFER", func(f *apiv1.FrameworkView) string { return show.Resources(f.GetMinOffer()) })),
	wide(text("LARGEST OFFER", func(f *apiv1.FrameworkView) string { return show.Resources(f.GetMaxOffer()) })),
	wide(text("REVOCABLE", func(f *apiv1.FrameworkView) string { return yesOrNothing(f.GetRevocable(), "yes") })),
}}

var taskLooks = looks[*apiv1.TaskView]{TaskRef, (*apiv1.TaskView).GetName, []column[*apiv1.TaskView]{
	text("TASK", TaskRef),
	text("STATE", (*apiv1.TaskView).GetState),
	aged("SINCE", (*apiv1.TaskView).GetSince),
	text("AGENT", (*apiv1.TaskView).GetAgentId),
	text("RESOURCES", func(t *apiv1.TaskView) string { return show.Resources(t.GetResources()) }),
	text("WHY", whyOf),
	wide(text("NAME", (*apiv1.TaskView).GetName)),
	wide(text("FRAMEWORK NAME", (*apiv1.TaskView).GetFrameworkName)),
	wide(text("ROLE", (*apiv1.TaskView).GetRole)),
	wide(text("OWNER", (*apiv1.TaskView).GetOwner)),
	wide(text("HOSTNAME", (*apiv1.TaskView).GetHostname)),
	wide(text("EXECUTOR", (*apiv1.TaskView).GetExecutorId)),
	wide(text("USED", func(t *apiv1.TaskView) string { return usageOf(t.GetUsage()) })),
	wide(text("COMMAND", func(t *apiv1.TaskView) string { return commandOf(t.GetCommand()) })),
	wide(text("HEALTHY", healthOf)),
}}

var offerLooks = looks[*apiv1.OfferView]{(*apiv1.OfferView).GetId, nil, []column[*apiv1.OfferView]{
	text("OFFER", (*apiv1.OfferView).GetId),
	text("FRAMEWORK", (*apiv1.OfferView).GetFrameworkId),
	text("AGENT", (*apiv1.OfferView).GetAgentId),
	text("ROLE", (*apiv1.OfferView).GetRole),
	text("RESOURCES", func(o *apiv1.OfferView) string { return show.Resources(o.GetResources()) }),
	aged("SINCE", (*apiv1.OfferView).GetSince),
	wide(text("FRAMEWORK NAME", (*apiv1.OfferView).GetFrameworkName)),
	wide(text("HOSTNAME", (*apiv1.OfferView).GetHostname)),
	wide(column[*apiv1.OfferView]{title: "EXPIRES IN", at: (*apiv1.OfferView).GetExpires, cell: func(o *apiv1.OfferView, now time.Time) string {
		if o.GetExpires() == nil {
			return ""
		}
		return show.Span(o.GetExpires().AsTime().Sub(now))
	}}),
}}

var executorLooks = looks[*apiv1.ExecutorView]{executorRef, nil, []column[*apiv1.ExecutorView]{
	text("EXECUTOR", executorRef),
	text("AGENT", (*apiv1.ExecutorView).GetAgentId),
	text("STATE", func(x *apiv1.ExecutorView) string {
		if x.GetLaunching() {
			return "launching"
		}
		return "running"
	}),
	text("TASKS", func(x *apiv1.ExecutorView) string { return strconv.Itoa(int(x.GetTasks())) }),
	text("RESOURCES", func(x *apiv1.ExecutorView) string { return show.Resources(x.GetResources()) }),
	text("USED", func(x *apiv1.ExecutorView) string { return usageOf(x.GetUsage()) }),
	wide(text("FRAMEWORK NAME", (*apiv1.ExecutorView).GetFrameworkName)),
	wide(text("ROLE", (*apiv1.ExecutorView).GetRole)),
	wide(text("HOSTNAME", (*apiv1.ExecutorView).GetHostname)),
}}

var operationLooks = looks[*apiv1.OperationView]{operationRef, nil, []column[*apiv1.OperationView]{
	text("OPERATION", operationRef),
	text("AGENT", (*apiv1.OperationView).GetAgentId),
	text("KIND", func(o *apiv1.OperationView) string {
		if o.GetKind() == apiv1.OperationKind_OPERATION_KIND_UNSPECIFIED {
			return ""
		}
		return o.GetKind().String()
	}),
	text("STATE", (*apiv1.OperationView).GetState),
	text("RESOURCES", func(o *apiv1.OperationView) string { return show.Resources(o.GetResources()) }),
	text("WHY", (*apiv1.OperationView).GetWhy),
	wide(text("VOLUME", (*apiv1.OperationView).GetVolume)),
	wide(text("FRAMEWORK NAME", (*apiv1.OperationView).GetFrameworkName)),
	wide(text("ROLE", (*apiv1.OperationView).GetRole)),
	wide(text("HOSTNAME", (*apiv1.OperationView).GetHostname)),
}}

var roleLooks = looks[*apiv1.RoleView]{(*apiv1.RoleView).GetRole, nil, []column[*apiv1.RoleView]{
	text("ROLE", (*apiv1.RoleView).GetRole),
	text("WEIGHT", func(r *apiv1.RoleView) string { return strconv.FormatFloat(r.GetWeight(), 'f', -1, 64) }),
	text("PRIORITY", func(r *apiv1.RoleView) string { return strconv.Itoa(int(r.GetPriority())) }),
	text("GUARANTEE", func(r *apiv1.RoleView) string { return show.Resources(r.GetGuarantee()) }),
	text("LIMIT", func(r *apiv1.RoleView) string { return show.Resources(r.GetLimit()) }),
	text("FRAMEWORKS", func(r *apiv1.RoleView) string { return strconv.Itoa(int(r.GetFrameworks())) }),
	text("SHARE", func(r *apiv1.RoleView) string { return show.Percent(r.GetDominantShare()) }),
	text("ALLOCATED", func(r *apiv1.RoleView) string { return show.Resources(r.GetAllocated()) }),
	wide(text("OFFERED", func(r *apiv1.RoleView) string { return show.Resources(r.GetOffered()) })),
	wide(text("RESERVED", func(r *apiv1.RoleView) string { return show.Resources(r.GetReserved()) })),
}}

var principalLooks = looks[*apiv1.PrincipalView]{(*apiv1.PrincipalView).GetName, nil, []column[*apiv1.PrincipalView]{
	text("PRINCIPAL", (*apiv1.PrincipalView).GetName),
	text("MAY", func(p *apiv1.PrincipalView) string { return strings.Join(GrantTexts(p.GetGrants()), ", ") }),
	aged("SINCE", (*apiv1.PrincipalView).GetCreated),
	text("WHY", func(p *apiv1.PrincipalView) string {
		if p.GetRevoked() == nil {
			return ""
		}
		return "revoked: " + p.GetWhy()
	}),
	wide(aged("REVOKED", (*apiv1.PrincipalView).GetRevoked)),
}}

var jobLooks = looks[*apiv1.JobStatus]{(*apiv1.JobStatus).GetName, nil, []column[*apiv1.JobStatus]{
	text("NAME", (*apiv1.JobStatus).GetName),
	text("ROLE", (*apiv1.JobStatus).GetRole),
	text("OWNER", (*apiv1.JobStatus).GetOwner),
	text("TYPE", (*apiv1.JobStatus).GetType),
	text("PHASE", (*apiv1.JobStatus).GetPhase),
	text("VERSION", func(j *apiv1.JobStatus) string { return strconv.Itoa(int(j.GetVersion())) }),
	text("TASKS", tasksOfJob((*apiv1.SubJobStatus).GetTasks)),
	text("RUNNING", tasksOfJob((*apiv1.SubJobStatus).GetRunning)),
	text("DONE", tasksOfJob((*apiv1.SubJobStatus).GetDone)),
	text("FAILED", tasksOfJob((*apiv1.SubJobStatus).GetFailed)),
	aged("AGE", (*apiv1.JobStatus).GetSubmitted),
	text("WHY", func(j *apiv1.JobStatus) string {
		return cmp.Or(j.GetWhy(), strings.Join(j.GetWaits()[:min(1, len(j.GetWaits()))], ""))
	}),
}}

// tasksOfJob sums up a count of all sub-jobs.
func tasksOfJob(count func(*apiv1.SubJobStatus) int32) func(*apiv1.JobStatus) string {
	return func(j *apiv1.JobStatus) string {
		sum := int32(0)
		for _, sub := range j.GetSubJobs() {
			sum += count(sub)
		}
		return strconv.Itoa(int(sum))
	}
}

var secretLooks = looks[*apiv1.SecretView]{(*apiv1.SecretView).GetName, nil, []column[*apiv1.SecretView]{
	text("SECRET", (*apiv1.SecretView).GetName),
	text("SET", func(s *apiv1.SecretView) string { return s.GetSet().AsTime().Format(time.RFC3339) }),
	text("BY", (*apiv1.SecretView).GetBy),
}}

var tokenLooks = looks[*apiv1.TokenView]{(*apiv1.TokenView).GetId, (*apiv1.TokenView).GetPrincipal, []column[*apiv1.TokenView]{
	text("TOKEN", (*apiv1.TokenView).GetId),
	text("KIND", (*apiv1.TokenView).GetKind),
	text("PRINCIPAL", (*apiv1.TokenView).GetPrincipal),
	text("STATE", (*apiv1.TokenView).GetState),
	text("USES", usesOf),
	text("EXPIRES", func(t *apiv1.TokenView) string {
		if t.GetExpires() == nil {
			return "never"
		}
		return t.GetExpires().AsTime().Format(time.RFC3339)
	}),
	text("BY", (*apiv1.TokenView).GetBy),
}}

// usesOf says how many have joined by a token.
func usesOf(t *apiv1.TokenView) string {
	if t.GetUsesMax() == 0 {
		return "any"
	}
	return fmt.Sprintf("%d of %d", t.GetUses(), t.GetUsesMax())
}

// GrantTexts returns grants as they are typed after `tender grant PRINCIPAL`.
func GrantTexts(grants []*apiv1.PrincipalGrant) []string {
	texts := make([]string, len(grants))
	for i, grant := range grants {
		texts[i] = wire.GrantFromProto(grant).String()
	}
	return texts
}

// indexText returns an index of the log; "" if it is not known.
func indexText(index uint64) string {
	if index == 0 {
		return ""
	}
	return strconv.FormatUint(index, 10)
}

// TasksOf returns how many tasks an agent has: "2+" if it may have more, and "?" if nothing is known.
func TasksOf(a *apiv1.AgentView) string {
	switch {
	case !a.GetTasksMaybeMore():
		return strconv.Itoa(int(a.GetTasks()))
	case a.GetTasks() == 0:
		return "?"
	}
	return strconv.Itoa(int(a.GetTasks())) + "+"
}

// stateWithMarks returns text such as "RUNNING,draining": one word, for scripts that cut columns.
func stateWithMarks(a *apiv1.AgentView) string {
	return strings.Join(append([]string{a.GetState()}, a.GetMarks()...), ",")
}

func demandOf(f *apiv1.FrameworkView) string {
	var parts []string
	for _, d := range f.GetDemand() {
		parts = append(parts, strconv.FormatInt(d.GetCount(), 10)+" x ("+show.Resources(d.GetResources())+")"+preferenceOf(d)+spreadOf(d))
	}
	return strings.Join(parts, ", ")
}

// healthOf says whether a task passes its checks; "" if that is not known or it has none.
func healthOf(t *apiv1.TaskView) string {
	switch {
	case t.Healthy == nil:
		return ""
	case t.GetHealthy():
		return "yes"
	}
	return "no"
}

// TaskSentence says where a task is, or how it has ended and why.
func TaskSentence(t *apiv1.TaskView, now time.Time) string {
	text := fmt.Sprintf("%s is %s", TaskRef(t), t.GetState())
	if t.GetAgentId() != "" {
		text += " on " + t.GetAgentId()
	} else {
		text += " and was never on an agent"
	}
	if age := show.Age(now, t.GetLaunched()); age != "" {
		text += ", launched " + age + " ago"
	}
	if why := whyOf(t); why != "" {
		text += ": " + why
	}
	return text
}

// whyOf returns what the state alone does not tell: exit code, reason and message.
func whyOf(t *apiv1.TaskView) string {
	var parts []string
	if t.ExitCode != nil && (t.GetExitCode() != 0 || t.GetState() != "FINISHED") {
		parts = append(parts, "exit code "+strconv.Itoa(int(t.GetExitCode())))
	}
	if t.GetReason() != "" {
		parts = append(parts, t.GetReason())
	}
	if message := show.BesideCode(t.GetMessage(), int(t.GetExitCode())); message != "" {
		parts = append(parts, message)
	}
	return strings.Join(parts, "; ")
}

func usageOf(u *apiv1.Usage) string {
	if u.GetAt() == nil {
		return ""
	}
	milli := func(m int64) string { return strconv.FormatFloat(float64(m)/1000, 'f', -1, 64) }
	return "cpus " + milli(u.GetCpuMilli()) + ", mem " + strconv.FormatInt(u.GetMemMilli()/1000, 10)
}

// commandOf returns a command as one would type it.
func commandOf(c *apiv1.Command) string {
	if c.GetShell() != "" {
		return c.GetShell()
	}
	var words []string
	for _, word := range c.GetArgv() {
		if word == "" || strings.ContainsAny(word, " \t\n\"'$&|;<>*?()\\`") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
