package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/quota"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/raftlog"
	"github.com/tenderhq/tender/master/internal/vault"
	"github.com/tenderhq/tender/master/registry"
	"github.com/tenderhq/tender/master/view"
)

// operatorService serves people and programs, by a room for each kind of call. Interceptors turn its errors into gRPC
// statuses.
type operatorService struct {
	unimplemented
	lookService
	changeService
	principalService
	identityService
}

// unimplemented answers calls of a newer protocol. It stands one level below the rooms, whose calls go before its own.
type unimplemented struct {
	apiv1.UnimplementedOperatorServiceServer
}

// lookService answers what there is, and why.
type lookService struct {
	config  *Config
	raft    *raftlog.Log
	guard   *guard.Guard
	leading *leadership
	masters *masters
}

// changeService has the leader change something.
type changeService struct {
	config  *Config
	leading *leadership
}

// asksForList is what all requests for lists have in common.
type asksForList interface {
	GetLimit() int32
	GetPageToken() string
	GetPrefix() string
	GetAgentId() string
	GetFrameworkId() string
	GetRole() string
	GetStates() []string
	GetAll() bool
}

func queryOf(r asksForList) view.Query {
	return view.Query{
		Limit: int(r.GetLimit()), After: r.GetPageToken(), Prefix: r.GetPrefix(), Agent: api.AgentID(r.GetAgentId()),
		Framework: api.FrameworkID(r.GetFrameworkId()), Role: api.Role(r.GetRole()), States: r.GetStates(), All: r.GetAll(),
	}
}

func (s lookService) GetCluster(context.Context, *apiv1.GetClusterRequest) (*apiv1.ClusterView, error) {
	leader, address := s.leading.leader()
	status, state := s.raft.Members.Status(), s.raft.Outline()
	return &apiv1.ClusterView{
		ClusterId: string(s.raft.Cluster()), LeaderId: string(leader), LeaderAddress: address,
		Term:      &apiv1.Term{Epoch: state.Epoch, Number: status.Term},
		Allocator: s.config.Allocator, Version: s.config.Version, Index: state.Index, MasterAddresses: s.masters.addresses(),
	}, nil
}

func (s lookService) ListMasters(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListMastersResponse, error) {
	if s.leading.now.Load() == nil && !r.GetStale() {
		return nil, s.leading.notLeader("operator.masters")
	}
	answer := s.masters.list(r)
	if s.leading.now.Load() != nil {
		s.masters.askProgress(ctx, answer.GetItems())
		s.masters.tellRefused(ctx, answer.GetItems())
	}
	return answer, nil
}

func (s lookService) ListAgents(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListAgentsResponse, error) {
	page, index, err := readList(ctx, s.leading, "operator.agents", r, view.AgentList)
	return &apiv1.ListAgentsResponse{Items: wire.Each(page.Items, showAgent), NextPageToken: page.Next, AppliedIndex: index}, err
}

func (s lookService) ListFrameworks(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListFrameworksResponse, error) {
	page, index, err := readList(ctx, s.leading, "operator.frameworks", r, view.FrameworkList)
	return &apiv1.ListFrameworksResponse{Items: wire.Each(page.Items, showFramework), NextPageToken: page.Next, AppliedIndex: index}, err
}

func (s lookService) ListTasks(ctx context.Context, r *apiv1.ListTasksRequest) (*apiv1.ListTasksResponse, error) {
	page, notYet, err := readReported(s.leading, "operator.tasks", queryOf(r), view.TaskList, s.leading.lookFor(ctx, "operator.tasks"))
	return &apiv1.ListTasksResponse{Items: wire.Each(page.Items, showTask), NextPageToken: page.Next, Incomplete: notYet}, err
}

func (s lookService) GetTask(ctx context.Context, r *apiv1.GetTaskRequest) (*apiv1.TaskView, error) {
	const op = "operator.task"
	var task view.Task
	var refused *api.Error
	err := s.leading.ask(ctx, op, func(c view.Cluster, _ time.Time) { task, refused = c.TaskCalled(op, r.GetTask(), r.GetExact()) })
	switch {
	case err != nil:
		return nil, err
	case refused != nil:
		return nil, refused
	}
	return showTask(task), nil
}

func (s lookService) ListOffers(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListOffersResponse, error) {
	page, err := readPage(ctx, s.leading, "operator.offers", queryOf(r), view.OfferList)
	return &apiv1.ListOffersResponse{Items: wire.Each(page.Items, showOffer), NextPageToken: page.Next}, err
}

func (s lookService) ListExecutors(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListExecutorsResponse, error) {
	page, notYet, err := readReported(s.leading, "operator.executors", queryOf(r), view.ExecutorList, s.leading.lookFor(ctx, "operator.executors"))
	return &apiv1.ListExecutorsResponse{Items: wire.Each(page.Items, showExecutor), NextPageToken: page.Next, Incomplete: notYet}, err
}

func (s lookService) ListOperations(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListOperationsResponse, error) {
	page, err := readPage(ctx, s.leading, "operator.operations", queryOf(r), view.OperationList)
	return &apiv1.ListOperationsResponse{Items: wire.Each(page.Items, showOperation), NextPageToken: page.Next}, err
}

func (s lookService) ListRoles(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListRolesResponse, error) {
	page, index, err := readList(ctx, s.leading, "operator.roles", r, view.RoleList)
	return &apiv1.ListRolesResponse{Items: wire.Each(page.Items, showRole), NextPageToken: page.Next, AppliedIndex: index}, err
}

func (s lookService) ListUsage(ctx context.Context, r *apiv1.ListUsageRequest) (*apiv1.ListUsageResponse, error) {
	const op = "operator.usage"
	query := view.UsageQuery{Query: view.Query{Limit: int(r.GetLimit()), After: r.GetPageToken()}}
	var err error
	if query.Since, query.Until, err = wire.Span(op, r.GetSince(), r.GetUntil()); err != nil {
		return nil, err
	}
	if query.By, err = view.ParseUsageBy(r.GetBy()); err != nil {
		return nil, api.E(op, api.Invalid, "by", err)
	}
	var usage view.Usage
	if err := s.leading.ask(ctx, op, func(c view.Cluster, now time.Time) { usage = c.Usage(now) }); err != nil {
		return nil, err
	}
	page := usage.Page(query)
	return &apiv1.ListUsageResponse{Items: wire.Each(page.Items, showUsage), NextPageToken: page.Next}, nil
}

// ListChanges lists the changes that this master itself was asked to make, so any master can answer it.
func (s lookService) ListChanges(_ context.Context, r *apiv1.ListChangesRequest) (*apiv1.ListChangesResponse, error) {
	return s.guard.Changes(s.config.ID, r)
}

func (lookService) CheckConstraint(_ context.Context, r *apiv1.CheckConstraintRequest) (*apiv1.CheckConstraintResponse, error) {
	if _, err := constraint.Compile(r.GetConstraint()); err != nil {
		return nil, api.E("constraint.check", api.Invalid, "", err)
	}
	return &apiv1.CheckConstraintResponse{}, nil
}

func (s lookService) Explain(ctx context.Context, r *apiv1.ExplainRequest) (*apiv1.ExplainResponse, error) {
	var explained view.Explanation
	var asked view.ShapeAsked
	var inVain bool
	var failed error
	if about := r.GetShape(); about != nil {
		shape, err := wire.ShapeFromProto(about.GetShape())
		if err != nil {
			return nil, err
		}
		asked = view.ShapeAsked{Shape: shape, Role: api.Role(about.GetRole()), Together: about.GetTogether()}
	}
	explain := func() error {
		return s.leading.ask(ctx, "operator.explain", func(c view.Cluster, now time.Time) {
			if r.GetShape() != nil {
				explained, inVain, failed = c.ExplainShape(r.GetFrameworkId(), asked, now)
				return
			}
			explained, failed = c.Explain(r.GetFrameworkId(), r.GetAgentId(), now)
		})
	}
	err := explain()
	if err == nil && failed == nil && s.leading.awaitPolicy(ctx) {
		err = explain()
	}
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	answer := &apiv1.ExplainResponse{FrameworkId: string(explained.Framework), Framework: explained.Reasons, InVain: inVain}
	for _, a := range explained.Agents {
		answer.Agents = append(answer.Agents, &apiv1.ExplainedAgent{AgentId: string(a.Agent), Hostname: a.Hostname, Why: a.Why})
	}
	answer.Decisions = wire.Each(explained.Decisions, showDecision)
	return answer, nil
}

func (s changeService) KillTask(ctx context.Context, r *apiv1.KillTaskRequest) (*apiv1.KillTaskResponse, error) {
	grace, err := durationOf("operator.kill", "grace", r.GetGrace())
	if err != nil {
		return nil, err
	}
	answer, err := s.leading.act(ctx, "operator.kill", core.KillTask{Task: r.GetTask(), Grace: grace})
	if err != nil {
		return nil, err
	}
	killed, ok := answer.(core.KillTaskAnswer)
	if !ok {
		return nil, api.E("operator.kill", api.Internal, r.GetTask(), fmt.Errorf("the core answered %T", answer))
	}
	guard.About(ctx, audit.Framework(killed.Task.Framework), audit.Task(killed.Task))
	response := &apiv1.KillTaskResponse{
		FrameworkId: string(killed.Task.Framework), TaskId: string(killed.Task.Task), Pending: killed.Pending,
	}
	if killed.Already != api.TaskUnspecified {
		response.Already = killed.Already.String()
	}
	return response, nil
}

func (s changeService) RemoveFramework(ctx context.Context, r *apiv1.RemoveFrameworkRequest) (*apiv1.ActionResponse, error) {
	s.noteFramework(ctx, r.GetFrameworkId())
	answer, err := s.leading.act(ctx, "operator.remove", core.RemoveFramework{Framework: r.GetFrameworkId(), Force: r.GetForce()})
	return actionResponse(r.GetFrameworkId(), answer, err)
}

func actionResponse(subject string, answer any, err error) (*apiv1.ActionResponse, error) {
	if err != nil {
		return nil, err
	}
	return &apiv1.ActionResponse{Subject: subject, Message: fmt.Sprint(answer)}, nil
}

func (s changeService) MarkAgent(ctx context.Context, r *apiv1.MarkAgentRequest) (*apiv1.ActionResponse, error) {
	const op = "operator.mark"
	s.noteAgents(ctx, r.GetAgentId())
	grace, err := durationOf(op, "grace", r.GetGrace())
	if err != nil {
		return nil, err
	}
	action := core.MarkAgent{Agent: r.GetAgentId(), Grace: grace, Force: r.GetForce()}
	switch r.GetAction() {
	case apiv1.AgentAction_DRAIN:
		action.Set = api.MarkDraining
	case apiv1.AgentAction_DEACTIVATE:
		action.Set = api.MarkDeactivated
	case apiv1.AgentAction_REACTIVATE:
		action.Clear = api.MarkDraining | api.MarkDrained | api.MarkDeactivated
	case apiv1.AgentAction_MARK_GONE:
		action.Set = api.MarkGone
	case apiv1.AgentAction_REMOVE:
		action.Remove = true
	default:
		return nil, api.E(op, api.Unsupported, r.GetAgentId(), fmt.Errorf("this master knows no action %v", r.GetAction()))
	}
	answer, err := s.leading.act(ctx, op, action)
	return actionResponse(r.GetAgentId(), answer, err)
}

func (s changeService) SetMaintenance(ctx context.Context, r *apiv1.SetMaintenanceRequest) (*apiv1.ActionResponse, error) {
	const op = "operator.maintenance"
	action := core.SetMaintenance{Agents: r.GetAgentIds()}
	if n := len(action.Agents); n > registry.MaintenanceAgentsMax {
		return nil, api.E(op, api.Limit, "", fmt.Errorf("%d agents at once; at most %d are allowed", n, registry.MaintenanceAgentsMax))
	}
	s.noteAgents(ctx, action.Agents...)
	if w := r.GetWindow(); w != nil {
		var err error
		if action.Window.Duration, err = durationOf(op, "duration", w.GetDuration()); err != nil {
			return nil, err
		}
		if action.Window.Start = w.GetStart().AsTime(); w.GetStart().CheckValid() != nil {
			return nil, api.E(op, api.Invalid, "start", errors.New("a window needs a start"))
		}
	}
	answer, err := s.leading.act(ctx, op, action)
	return actionResponse("", answer, err)
}

func (s changeService) Reserve(ctx context.Context, r *apiv1.ReserveRequest) (*apiv1.ActionResponse, error) {
	const op = "agent.reserve"
	s.noteAgents(ctx, r.GetAgentId())
	resources, err := api.ParseResources(r.GetResources())
	if err != nil {
		return nil, api.E(op, api.Invalid, r.GetAgentId(), err)
	}
	size := min(max(r.GetSizeMb(), 0), int64(api.MilliMax)/1000)
	operation := api.Operation{Resources: resources, Volume: api.VolumeID(r.GetVolume()), Size: api.Milli(size) * 1000, Tag: r.GetTag()}
	switch r.GetAction() {
	case apiv1.OperationKind_RESERVE:
		operation.Kind = api.OpReserve
	case apiv1.OperationKind_UNRESERVE:
		operation.Kind = api.OpUnreserve
	case apiv1.OperationKind_CREATE_VOLUME:
		operation.Kind = api.OpCreate
	case apiv1.OperationKind_DESTROY_VOLUME:
		operation.Kind = api.OpDestroy
	default:
		return nil, api.E(op, api.Unsupported, r.GetAgentId(), fmt.Errorf("this master knows no action %v", r.GetAction()))
	}
	answer, err := s.leading.act(ctx, op, core.ReserveOn{Agent: r.GetAgentId(), Role: api.Role(r.GetRole()), Operation: operation})
	return actionResponse(r.GetAgentId(), answer, err)
}

func (s changeService) SetRole(ctx context.Context, r *apiv1.SetRoleRequest) (*apiv1.RoleView, error) {
	const op = "operator.role"
	role := api.Role(r.GetRole())
	if err := role.Check(); err != nil {
		return nil, api.E(op, api.Invalid, role, err)
	}
	setting := settings.Role{Role: role, Weight: r.Weight, Force: r.GetForce()}
	if r.Priority != nil {
		priority := int(r.GetPriority())
		setting.Priority = &priority
	}
	var err error
	if setting.Guarantee, err = quotaOf(op, "guarantee", r.Guarantee, api.ParseResources); err != nil {
		return nil, err
	}
	if setting.Limit, err = quotaOf(op, "limit", r.Limit, quota.ParseLimit); err != nil {
		return nil, err
	}
	if _, err := s.leading.act(ctx, op, core.Set{Setting: setting}); err != nil {
		return nil, err
	}
	page, err := readPage(ctx, s.leading, op, view.Query{Role: role}, view.RoleList)
	if err != nil || len(page.Items) == 0 { // the role has no row of its own
		return &apiv1.RoleView{Role: string(role), Weight: 1}, err
	}
	return showRole(page.Items[0]), nil
}

// quotaOf parses resources in the notation of the flags; "none" removes a quota, and nothing else does.
func quotaOf(op, what string, text *string, parse func(string) (api.Resources, error)) (*api.Resources, error) {
	if text == nil {
		return nil, nil
	}
	if *text == "none" {
		return &api.Resources{}, nil
	}
	resources, err := parse(*text)
	switch {
	case err != nil:
		return nil, api.E(op, api.Invalid, what, err)
	case resources.IsZero():
		return nil, api.E(op, api.Invalid, what, errors.New("it is empty; write resources such as cpus:8, or none to take it away"))
	}
	return &resources, nil
}

// graceMax bounds the grace of a kill. Nobody needs more.
const graceMax = 365 * 24 * time.Hour

func durationOf(op, what string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	value := d.AsDuration()
	if d.CheckValid() != nil || value < 0 || value > graceMax {
		return 0, api.E(op, api.Invalid, what, fmt.Errorf("%v is no time between 0 and a year", value))
	}
	return value, nil
}

func (s changeService) SetSecret(ctx context.Context, r *apiv1.SetSecretRequest) (*apiv1.ActionResponse, error) {
	id := api.SecretID(r.GetName())
	sealed, err := vault.Seal(s.config.Trust.Key, id, r.GetValue())
	if err != nil {
		return nil, err
	}
	answer, err := s.leading.act(ctx, "secret.set", core.Set{Setting: settings.Secret{ID: id, Sealed: sealed}})
	return actionResponse(r.GetName(), answer, err)
}

func (s changeService) RemoveSecret(ctx context.Context, r *apiv1.RemoveSecretRequest) (*apiv1.ActionResponse, error) {
	answer, err := s.leading.act(ctx, "secret.rm", core.Set{Setting: settings.NoSecret{ID: api.SecretID(r.GetName())}})
	return actionResponse(r.GetName(), answer, err)
}

func (s lookService) ListSecrets(ctx context.Context, r *apiv1.ListRequest) (*apiv1.ListSecretsResponse, error) {
	page, err := readPage(ctx, s.leading, "secret.list", queryOf(r), view.SecretList)
	return &apiv1.ListSecretsResponse{Items: wire.Each(page.Items, showSecret), NextPageToken: page.Next}, err
}

// noteAgents records in the audit log the IDs of agents that a call names by their hostnames.
func (s changeService) noteAgents(ctx context.Context, said ...string) {
	s.noteMeant(ctx, func(c view.Cluster) (meant []audit.Object) {
		for _, name := range said {
			if id, err := c.FindAgent("", name, view.Whole); err == nil && string(id) != name {
				meant = append(meant, audit.Agent(id))
			}
		}
		return meant
	})
}

// noteFramework records in the audit log the ID of a framework that a call names by its name.
func (s changeService) noteFramework(ctx context.Context, said string) {
	s.noteMeant(ctx, func(c view.Cluster) []audit.Object {
		id, err := c.FindFramework("", said, view.Whole)
		if err != nil || id == api.FrameworkID(said) {
			return nil
		}
		return []audit.Object{audit.Framework(id)}
	})
}

// noteMeant records objects that the leader finds, even if the caller may not see them, because the audit log is not
// for the caller. When this master does not lead, nothing is recorded, and the call itself will be refused.
func (s changeService) noteMeant(ctx context.Context, find func(view.Cluster) []audit.Object) {
	var meant []audit.Object
	if s.leading.ask(ctx, "audit", func(c view.Cluster, _ time.Time) {
		c.Sees = rights.All()
		meant = find(c)
	}) == nil {
		guard.About(ctx, meant...)
	}
}
