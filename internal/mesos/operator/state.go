package operator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/mesos"
	"github.com/tenderhq/tender/internal/mesos/translate"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
	"github.com/tenderhq/tender/internal/wire"
)

// parts are the lists that an answer needs.
type parts int

const (
	agents parts = 1 << iota
	frameworks
	tasks
	offers
	roles
	executors
	snapshot // agents, frameworks, tasks and offers as they are at one moment, and executors
)

// state is what the caller sees of the cluster.
type state struct {
	agents     []*apiv1.AgentView
	frameworks []*apiv1.FrameworkView // also those that were removed
	tasks      []*apiv1.TaskView      // also those that have ended
	offers     []*apiv1.OfferView
	roles      []*apiv1.RoleView
	executors  []*apiv1.ExecutorView
	over       []*apiv1.TaskView      // of an agent those that have ended, which are not among its tasks
	former     []*apiv1.FrameworkView // of an agent those that have only such tasks there
}

// readState reads what an answer needs: lists, which are read page by page, or what there is at one moment.
func (r request) readState(want parts) (*state, error) {
	if want&snapshot == 0 {
		return readState(r.r.Context(), r.cluster, want)
	}
	there := new(client.Copy)
	for response, err := range r.cluster.Watch(r.r.Context(), &apiv1.WatchRequest{Kinds: []string{"agent", "framework", "task", "offer"}}) {
		if err != nil {
			return nil, err
		}
		if there.Take(response); there.Whole() {
			break
		}
	}
	return r.complete(there)
}

// complete adds to what there is at one moment what has ended before, which does not change any more, and executors.
func (r request) complete(there *client.Copy) (*state, error) {
	s := &state{agents: there.Agents(), frameworks: there.Frameworks(), tasks: there.Tasks(), offers: there.Offers()}
	lists, err := readState(r.r.Context(), r.cluster, frameworks|tasks|executors)
	if err != nil {
		return nil, err
	}
	for _, f := range lists.frameworks {
		if there.Get("framework", f.GetId()) == nil && f.GetState() == removed {
			s.frameworks = append(s.frameworks, f)
		}
	}
	for _, t := range lists.tasks {
		if _, ended := stateOf(t); ended && there.Get("task", t.GetFrameworkId()+"/"+t.GetId()) == nil {
			s.tasks = append(s.tasks, t)
		}
	}
	s.executors = lists.executors
	s.addExecutorsOfTasks()
	return s, nil
}

// addExecutorsOfTasks adds the executors of tasks that were not listed, as they have ended meanwhile.
func (s *state) addExecutorsOfTasks() {
	seen := make(map[[3]string]bool)
	for _, x := range s.executors {
		seen[[3]string{x.GetAgentId(), x.GetFrameworkId(), x.GetId()}] = true
	}
	for _, t := range s.tasks {
		state, ended := stateOf(t)
		name := [3]string{t.GetAgentId(), t.GetFrameworkId(), t.GetExecutorId()}
		if !seen[name] && t.GetAgentId() != "" && !ended && state != api.TaskUnreachable {
			seen[name] = true
			s.executors = append(s.executors, &apiv1.ExecutorView{Id: t.GetExecutorId(), FrameworkId: t.GetFrameworkId(), AgentId: t.GetAgentId(), Role: t.GetRole()})
		}
	}
}

// readState reads lists from the leader.
func readState(ctx context.Context, cluster Cluster, want parts) (*state, error) {
	s := new(state)
	calls, all := cluster.Operator(), &apiv1.ListRequest{All: true}
	for _, list := range []struct {
		part parts
		read func() error
	}{
		{agents, func() error { return client.ReadInto(ctx, &s.agents, calls.ListAgents, all) }},
		{frameworks, func() error { return client.ReadInto(ctx, &s.frameworks, calls.ListFrameworks, all) }},
		{tasks, func() error {
			return client.ReadInto(ctx, &s.tasks, calls.ListTasks, &apiv1.ListTasksRequest{All: true})
		}},
		{offers, func() error { return client.ReadInto(ctx, &s.offers, calls.ListOffers, all) }},
		{executors, func() error { return client.ReadInto(ctx, &s.executors, calls.ListExecutors, all) }},
		{roles, func() error { return client.ReadInto(ctx, &s.roles, calls.ListRoles, all) }},
	} {
		if want&list.part == 0 {
			continue
		}
		if err := list.read(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// everything is a framework that knows all that Mesos's frameworks may know: as it, lists are written for tools.
var everything = func() *translate.Framework {
	info := new(mesosv1.FrameworkInfo)
	for number := range mesosv1.FrameworkInfo_Capability_Type_name {
		if kind := mesosv1.FrameworkInfo_Capability_Type(number); kind != mesosv1.FrameworkInfo_Capability_UNKNOWN {
			info.Capabilities = append(info.Capabilities, &mesosv1.FrameworkInfo_Capability{Type: kind.Enum()})
		}
	}
	slices.SortFunc(info.Capabilities, func(a, b *mesosv1.FrameworkInfo_Capability) int { return cmp.Compare(a.GetType(), b.GetType()) })
	f, err := translate.ReadFramework(info)
	if err != nil {
		panic(err) // it names no role
	}
	return f
}()

// amounts reads resources of a view. What can't be read is not there: the leader has written it.
func amounts(shown *structpb.Struct) api.Resources {
	resources, err := wire.ResourcesFromStruct(shown)
	if err != nil {
		return api.Resources{}
	}
	return resources
}

func resources(shown *structpb.Struct) []*mesosv1.Resource {
	return everything.WriteResources(amounts(shown), "", nil)
}

func allocated(shown *structpb.Struct, role string) []*mesosv1.Resource {
	return everything.WriteResources(amounts(shown), api.Role(role), nil)
}

func timeInfo(at *timestamppb.Timestamp) *mesosv1.TimeInfo {
	if at == nil {
		return nil
	}
	return &mesosv1.TimeInfo{Nanoseconds: proto.Int64(at.AsTime().UnixNano())}
}

// seconds is how Mesos writes times in JSON and in statuses.
func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

func timeOf(t *mesosv1.TimeInfo) time.Time { return time.Unix(0, t.GetNanoseconds()) }

func durationOf(d *mesosv1.DurationInfo) time.Duration { return time.Duration(d.GetNanoseconds()) }

func text(s string) *string { return &s }

// optional is nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func agentPID(a *apiv1.AgentView) string {
	host, _, err := net.SplitHostPort(a.GetAddress())
	if err != nil {
		host = a.GetHostname()
	}
	return "slave(1)@" + net.JoinHostPort(host, strconv.Itoa(translate.AgentPort))
}

// ipOf is the address at which an agent is reached.
func ipOf(a *apiv1.AgentView) string {
	host, _, _ := net.SplitHostPort(a.GetAddress())
	if net.ParseIP(host) == nil {
		host = a.GetHostname()
	}
	return translate.AddressOf(host)
}

func marked(a *apiv1.AgentView, mark api.Mark) bool {
	return slices.Contains(a.GetMarks(), mark.Strings()[0])
}

func isState(have string, states ...api.AgentState) bool {
	return slices.ContainsFunc(states, func(s api.AgentState) bool { return s.String() == have })
}

// registered says whether an agent is one that Mesos's master lists: it is there, and was not given up.
func registered(a *apiv1.AgentView) bool {
	return !marked(a, api.MarkGone) && isState(a.GetState(), api.AgentIniting, api.AgentRunning, api.AgentBusy)
}

// recovered says whether an agent is expected back.
func recovered(a *apiv1.AgentView) bool {
	return !marked(a, api.MarkGone) && isState(a.GetState(), api.AgentDisconnected)
}

// unreachable says whether an agent is taken for dead, and was not given up.
func unreachable(a *apiv1.AgentView) bool {
	return isState(a.GetState(), api.AgentTombstone) && !marked(a, api.MarkGone)
}

func active(a *apiv1.AgentView) bool {
	return registered(a) && !marked(a, api.MarkDeactivated) && !marked(a, api.MarkDraining)
}

// agentCapabilities are those of Mesos's agents whose meaning ours have.
var agentCapabilities = []mesosv1.AgentInfo_Capability_Type{
	mesosv1.AgentInfo_Capability_MULTI_ROLE, mesosv1.AgentInfo_Capability_HIERARCHICAL_ROLE,
	mesosv1.AgentInfo_Capability_AGENT_OPERATION_FEEDBACK, mesosv1.AgentInfo_Capability_AGENT_DRAINING, mesosv1.AgentInfo_Capability_TASK_RESOURCE_LIMITS,
}

func agentInfo(a *apiv1.AgentView) *mesosv1.AgentInfo {
	return &mesosv1.AgentInfo{
		Hostname: text(a.GetHostname()), Id: translate.AgentID(api.AgentID(a.GetId())), Port: proto.Int32(translate.AgentPort),
		Resources: resources(a.GetTotal()), Attributes: translate.Attributes(a.GetAttributes()), Domain: translate.Domain(a.GetRegion(), a.GetZone()),
	}
}

func agentOf(a *apiv1.AgentView) *masterv1.Response_GetAgents_Agent {
	shown := &masterv1.Response_GetAgents_Agent{
		AgentInfo: agentInfo(a), Active: proto.Bool(active(a)), Version: text(mesos.Version), Pid: text(agentPID(a)),
		RegisteredTime: timeInfo(a.GetAdmitted()), TotalResources: resources(a.GetTotal()),
		AllocatedResources: resources(a.GetAllocated()), OfferedResources: resources(a.GetOffered()),
		Deactivated: proto.Bool(marked(a, api.MarkDeactivated) || marked(a, api.MarkDraining)),
	}
	for _, capability := range agentCapabilities {
		shown.Capabilities = append(shown.Capabilities, &mesosv1.AgentInfo_Capability{Type: capability.Enum()})
	}
	if marked(a, api.MarkDraining) {
		now := mesosv1.DrainState_DRAINING
		if marked(a, api.MarkDrained) {
			now = mesosv1.DrainState_DRAINED
		}
		shown.DrainInfo = &mesosv1.DrainInfo{State: now.Enum(), Config: new(mesosv1.DrainConfig)}
	}
	return shown
}

func (s *state) getAgents() *masterv1.Response_GetAgents {
	all := new(masterv1.Response_GetAgents)
	for _, a := range s.agents {
		switch {
		case registered(a):
			all.Agents = append(all.Agents, agentOf(a))
		case recovered(a):
			all.RecoveredAgents = append(all.RecoveredAgents, agentInfo(a))
		}
	}
	return all
}

// removed is the state of a framework that was removed.
const removed = "removed"

func frameworkInfo(f *apiv1.FrameworkView) *mesosv1.FrameworkInfo {
	info := &mesosv1.FrameworkInfo{
		User: text(""), Name: text(f.GetName()), Id: &mesosv1.FrameworkID{Value: text(f.GetId())}, Principal: optional(f.GetPrincipal()),
		FailoverTimeout: proto.Float64(f.GetFailoverTimeout().AsDuration().Seconds()), Checkpoint: proto.Bool(true),
		Labels: translate.MesosLabels(f.GetLabels()), WebuiUrl: optional(f.GetEndpoints()["webui"]), Capabilities: everything.Info.GetCapabilities(),
	}
	for _, role := range f.GetRoles() {
		info.Roles = append(info.Roles, everything.MesosRole(api.Role(role)))
	}
	return info
}

func (s *state) frameworkOf(f *apiv1.FrameworkView) *masterv1.Response_GetFrameworks_Framework {
	shown := &masterv1.Response_GetFrameworks_Framework{
		FrameworkInfo: frameworkInfo(f), Active: proto.Bool(f.GetState() == "active"), Connected: proto.Bool(f.GetState() == "active"), Recovered: proto.Bool(false),
		RegisteredTime: timeInfo(f.GetAdmitted()), AllocatedResources: resources(f.GetAllocated()), OfferedResources: resources(f.GetOffered()),
	}
	if f.GetState() == removed {
		shown.UnregisteredTime = timeInfo(f.GetSince())
	}
	for _, offer := range s.offers {
		if offer.GetFrameworkId() == f.GetId() {
			shown.Offers = append(shown.Offers, s.offerOf(offer))
		}
	}
	return shown
}

func (s *state) offerOf(o *apiv1.OfferView) *mesosv1.Offer {
	return everything.WriteOffer(api.Offer{
		ID: api.OfferID(o.GetId()), Framework: api.FrameworkID(o.GetFrameworkId()), Agent: api.AgentID(o.GetAgentId()), Hostname: s.hostname(o.GetAgentId()),
		Role: api.Role(o.GetRole()), Resources: amounts(o.GetResources()),
	}, translate.AddressOf(s.hostname(o.GetAgentId())), nil)
}

func (s *state) hostname(agent string) string {
	at := slices.IndexFunc(s.agents, func(a *apiv1.AgentView) bool { return a.GetId() == agent })
	if at < 0 {
		return ""
	}
	return s.agents[at].GetHostname()
}

func (s *state) getFrameworks() *masterv1.Response_GetFrameworks {
	all := new(masterv1.Response_GetFrameworks)
	for _, f := range s.frameworks {
		if f.GetState() == removed {
			all.CompletedFrameworks = append(all.CompletedFrameworks, s.frameworkOf(f))
		} else {
			all.Frameworks = append(all.Frameworks, s.frameworkOf(f))
		}
	}
	return all
}

// stateOf is the state of a task, and whether it has ended.
func stateOf(t *apiv1.TaskView) (state api.TaskState, ended bool) {
	state, _ = api.ParseTaskState(t.GetState()) // the leader has written it
	return state, state.Terminal()
}

// executorOf names the executor of a task. Mesos names a command's like its task.
func executorOf(t *apiv1.TaskView) string {
	if t.GetExecutorId() == string(api.CommandExecutor) || t.GetExecutorId() == "" {
		return translate.UnescapeID(t.GetId())
	}
	return translate.UnescapeID(t.GetExecutorId())
}

func statusOf(t *apiv1.TaskView) *mesosv1.TaskStatus {
	reason, _ := api.ParseReason(t.GetReason()) // the leader has written it
	state, _ := stateOf(t)
	status := api.Status{
		Framework: api.FrameworkID(t.GetFrameworkId()), Task: api.TaskID(t.GetId()), Agent: api.AgentID(t.GetAgentId()), Executor: api.ExecutorID(t.GetExecutorId()),
		State: state, Reason: reason, Message: t.GetMessage(), Source: api.MoverAgent, At: t.GetSince().AsTime(), Healthy: t.Healthy,
	}
	if t.ExitCode != nil {
		code := int(t.GetExitCode())
		status.ExitCode = &code
	}
	return everything.WriteStatus(status, translate.AddressOf(t.GetHostname()))
}

func taskOf(t *apiv1.TaskView) *mesosv1.Task {
	state, _ := stateOf(t)
	shown := &mesosv1.Task{
		Name: text(t.GetName()), TaskId: translate.TaskID(api.TaskID(t.GetId())), FrameworkId: &mesosv1.FrameworkID{Value: text(t.GetFrameworkId())},
		AgentId: translate.AgentID(api.AgentID(t.GetAgentId())), State: everything.State(state).Enum(), Resources: allocated(t.GetResources(), t.GetRole()),
		Statuses: []*mesosv1.TaskStatus{statusOf(t)}, Labels: translate.MesosLabels(t.GetLabels()), User: optional(t.GetCommand().GetUser()),
	}
	if t.GetExecutorId() != string(api.CommandExecutor) {
		shown.ExecutorId = &mesosv1.ExecutorID{Value: text(executorOf(t))}
	}
	if len(t.GetPorts()) > 0 {
		shown.Discovery = &mesosv1.DiscoveryInfo{Visibility: mesosv1.DiscoveryInfo_CLUSTER.Enum(), Name: text(t.GetName()), Ports: new(mesosv1.Ports)}
		for _, name := range slices.Sorted(maps.Keys(t.GetPorts())) {
			shown.Discovery.Ports.Ports = append(shown.Discovery.Ports.Ports, &mesosv1.Port{Number: proto.Uint32(t.GetPorts()[name]), Name: text(name)})
		}
	}
	if t.GetImage() != "" {
		shown.Container = &mesosv1.ContainerInfo{Type: mesosv1.ContainerInfo_MESOS.Enum(), Mesos: &mesosv1.ContainerInfo_MesosInfo{
			Image: &mesosv1.Image{Type: mesosv1.Image_DOCKER.Enum(), Docker: &mesosv1.Image_Docker{Name: text(t.GetImage())}},
		}}
	}
	return shown
}

func (s *state) getTasks() *masterv1.Response_GetTasks {
	all := new(masterv1.Response_GetTasks)
	for _, t := range s.tasks {
		switch state, ended := stateOf(t); {
		case ended:
			all.CompletedTasks = append(all.CompletedTasks, taskOf(t))
		case state == api.TaskUnreachable:
			all.UnreachableTasks = append(all.UnreachableTasks, taskOf(t))
		default:
			all.Tasks = append(all.Tasks, taskOf(t))
		}
	}
	return all
}

// customExecutors lists the frameworks' own executors. Mesos shows none of those that run commands.
func (s *state) customExecutors() (list []*apiv1.ExecutorView) {
	for _, x := range s.executors {
		if x.GetId() != string(api.CommandExecutor) {
			list = append(list, x)
		}
	}
	return list
}

func executorInfo(x *apiv1.ExecutorView) *mesosv1.ExecutorInfo {
	id := translate.UnescapeID(x.GetId())
	return &mesosv1.ExecutorInfo{
		ExecutorId: &mesosv1.ExecutorID{Value: text(id)}, FrameworkId: &mesosv1.FrameworkID{Value: text(x.GetFrameworkId())},
		Type: mesosv1.ExecutorInfo_CUSTOM.Enum(), Name: text(id), Resources: allocated(x.GetResources(), x.GetRole()),
	}
}

func (s *state) getExecutors() *masterv1.Response_GetExecutors {
	all := new(masterv1.Response_GetExecutors)
	for _, x := range s.customExecutors() {
		all.Executors = append(all.Executors, &masterv1.Response_GetExecutors_Executor{ExecutorInfo: executorInfo(x), AgentId: translate.AgentID(api.AgentID(x.GetAgentId()))})
	}
	return all
}

// operationTypes are the kinds of operations, as Mesos has them.
var operationTypes = map[apiv1.OperationKind]mesosv1.Offer_Operation_Type{
	apiv1.OperationKind_LAUNCH: mesosv1.Offer_Operation_LAUNCH, apiv1.OperationKind_LAUNCH_GROUP: mesosv1.Offer_Operation_LAUNCH_GROUP,
	apiv1.OperationKind_RESERVE: mesosv1.Offer_Operation_RESERVE, apiv1.OperationKind_UNRESERVE: mesosv1.Offer_Operation_UNRESERVE,
	apiv1.OperationKind_CREATE_VOLUME: mesosv1.Offer_Operation_CREATE, apiv1.OperationKind_DESTROY_VOLUME: mesosv1.Offer_Operation_DESTROY,
}

// operationOf writes an operation. Of one that is over leaders remember how it ended, and not what it was.
func operationOf(o *apiv1.OperationView) *mesosv1.Operation {
	status := &mesosv1.OperationStatus{State: mesosv1.OperationState_OPERATION_PENDING.Enum(), Message: optional(o.GetWhy()), AgentId: translate.AgentID(api.AgentID(o.GetAgentId()))}
	switch o.GetState() {
	case "done":
		status.State = mesosv1.OperationState_OPERATION_FINISHED.Enum()
	case "refused":
		status.State = mesosv1.OperationState_OPERATION_ERROR.Enum()
	}
	info := &mesosv1.Offer_Operation{Type: operationTypes[o.GetKind()].Enum()}
	if o.GetId() != "" {
		info.Id = &mesosv1.OperationID{Value: text(translate.UnescapeID(o.GetId()))}
		status.OperationId = info.Id
	}
	switch info.GetType() {
	case mesosv1.Offer_Operation_RESERVE:
		info.Reserve = &mesosv1.Offer_Operation_Reserve{Resources: resources(o.GetResources())}
	case mesosv1.Offer_Operation_UNRESERVE:
		info.Unreserve = &mesosv1.Offer_Operation_Unreserve{Resources: resources(o.GetResources())}
	}
	name := sha256.Sum256([]byte(o.GetFrameworkId() + "/" + o.GetAgentId() + "/" + o.GetId()))
	return &mesosv1.Operation{
		FrameworkId: &mesosv1.FrameworkID{Value: text(o.GetFrameworkId())}, AgentId: status.AgentId, Info: info,
		LatestStatus: status, Statuses: []*mesosv1.OperationStatus{status}, Uuid: &mesosv1.UUID{Value: name[:16]},
	}
}

func (s *state) getRoles() *masterv1.Response_GetRoles {
	all := new(masterv1.Response_GetRoles)
	for _, r := range s.roles {
		role := &mesosv1.Role{Name: text(everything.MesosRole(api.Role(r.GetRole()))), Weight: proto.Float64(r.GetWeight()), Resources: resources(r.GetAllocated())}
		for _, f := range s.inRole(r.GetRole()) {
			role.Frameworks = append(role.Frameworks, &mesosv1.FrameworkID{Value: text(f)})
		}
		all.Roles = append(all.Roles, role)
	}
	return all
}

// inRole lists the frameworks that are subscribed in a role.
func (s *state) inRole(role string) (ids []string) {
	for _, f := range s.frameworks {
		if f.GetState() != removed && slices.Contains(f.GetRoles(), role) {
			ids = append(ids, f.GetId())
		}
	}
	return ids
}

// rangesText writes ranges as Mesos does.
func rangesText(ranges api.Ranges) string {
	parts := make([]string, len(ranges))
	for i, one := range ranges {
		parts[i] = fmt.Sprintf("%d-%d", one.Begin, one.End)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
