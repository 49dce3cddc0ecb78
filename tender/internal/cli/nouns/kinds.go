// Package nouns shows the objects of a cluster to people: masters, agents, frameworks, tasks, offers, roles and
// principals. It lists them by pages, finds the one that a word means, and prints in columns and in lines what is known
// of each. It reads no flags and changes nothing.
package nouns

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// Query says what to list.
type Query struct {
	Prefix, Agent, Framework, Role string
	States                         []string
	All                            bool
	Limit                          int
	Stale                          bool
	Index                          uint64 // the registry's index, from the answer to a stale read
}

func (q *Query) list(token string, limit int32) *apiv1.ListRequest {
	return &apiv1.ListRequest{
		Limit: limit, PageToken: token, Prefix: q.Prefix, AgentId: q.Agent, FrameworkId: q.Framework, Role: q.Role, States: q.States, Stale: q.Stale, All: q.All,
	}
}

func (q *Query) tasks(token string, limit int32) *apiv1.ListTasksRequest {
	return &apiv1.ListTasksRequest{
		Limit: limit, PageToken: token, Prefix: q.Prefix, AgentId: q.Agent, FrameworkId: q.Framework, Role: q.Role, States: q.States, All: q.All,
	}
}

// Kind is a noun that can be listed.
type Kind struct {
	Name    string // as `get` takes it; the singular and its beginning work too
	About   string
	Filters []string // flags that have an effect for it
	States  []string // the values of --state
	list    func(ctx context.Context, c *client.Client, q *Query) (*Listing, error)
	watched string                       // the kind as a watch calls it; "": a watch has only its events, or those of job managers
	view    func(proto.Message) *Listing // lists the view of one thing
}

// Watched returns the kind as a watch calls it; "": a watch shows none of them.
func (k Kind) Watched() string { return k.watched }

// Header returns the titles of the columns.
func (k Kind) Header(wide bool) []string { return k.view(nil).header(wide) }

// Item returns the row of one thing, by its view.
func (k Kind) Item(view proto.Message) Item { return k.view(view).Items[0] }

// The kinds.
var (
	Masters = Kind{"masters", "the masters and which one leads", []string{"state", "stale"},
		[]string{"leader", "follower", "non-voter", "unreachable"}, listMasters,
		"master", viewing(masterColumns, (*apiv1.MasterView).GetId, nameless)}
	Agents = Kind{"agents", "the agents, their state and resources", []string{"state", "stale"},
		[]string{"INITING", "RUNNING", "BUSY", "DISCONNECTED", "TOMBSTONE"}, listAgents,
		"agent", viewing(agentColumns, (*apiv1.AgentView).GetId, (*apiv1.AgentView).GetHostname)}
	Frameworks = Kind{"frameworks", "the frameworks that are subscribed or may come back; --all also those that were removed",
		[]string{"state", "role", "all", "stale"}, []string{"active", "disconnected", "removed"}, listFrameworks,
		"framework", viewing(frameworkColumns, (*apiv1.FrameworkView).GetId, (*apiv1.FrameworkView).GetName)}
	Tasks = Kind{"tasks", "the tasks; --all also those that have ended", []string{"state", "agent", "framework", "role", "all"}, taskStates(), listTasks,
		"task", viewing(taskColumns, TaskRef, (*apiv1.TaskView).GetName)}
	Offers = Kind{"offers", "the offers that frameworks hold now", []string{"agent", "framework", "role"}, nil, listOffers,
		"offer", viewing(offerColumns, (*apiv1.OfferView).GetId, nameless)}
	Executors = Kind{"executors", "the executors on agents, also those without tasks", []string{"agent", "framework", "role"}, nil, listExecutors,
		"", viewing(executorColumns, executorRef, nameless)}
	Operations = Kind{"operations", "the operations on resources that wait for the quorum; --all also those that the leader remembers", []string{"agent", "framework", "role", "all"}, nil, listOperations,
		"", viewing(operationColumns, operationRef, nameless)}
	Principals = Kind{"principals", "those to whom something was granted, and what; --all also those that were revoked", []string{"all", "stale"}, nil, listPrincipals,
		"principal", viewing(principalColumns, (*apiv1.PrincipalView).GetName, nameless)}
	Endpoints = Kind{"endpoints", "where tasks that run (and pass their health checks) are reached, by their named ports; of a framework or a task",
		[]string{"agent", "framework", "role"}, nil, listEndpoints, "task", viewEndpoints}
	Roles = Kind{"roles", "the roles with weight, priority and quota", []string{"stale"}, nil, listRoles,
		"role", viewing(roleColumns, (*apiv1.RoleView).GetRole, nameless)}
	Jobs = Kind{"jobs", "the jobs that job managers run; --all also those that have ended", []string{"all"}, nil, listJobs,
		"", viewing(jobColumns, (*apiv1.JobStatus).GetName, nameless)}
	Secrets = Kind{"secrets", "the secrets of roles, without their values", []string{"role"}, nil, listSecrets,
		"secret", viewing(secretColumns, (*apiv1.SecretView).GetName, nameless)}
	Tokens = Kind{"tokens", "the tokens with which others join, without their secrets", nil, nil, listTokens,
		"token", viewing(tokenColumns, (*apiv1.TokenView).GetId, (*apiv1.TokenView).GetPrincipal)}
)

// Kinds returns all kinds in the order in which people are told of them.
func Kinds() []Kind {
	return []Kind{Masters, Agents, Frameworks, Tasks, Jobs, Endpoints, Offers, Executors, Operations, Roles, Principals, Secrets, Tokens}
}

// taskStates returns all states that a list can show: UNKNOWN is only ever an answer to one framework.
func taskStates() (names []string) {
	for state := api.TaskStaging; state < api.TaskUnknown; state++ {
		names = append(names, state.String())
	}
	return names
}

// Named finds a kind by its name, its singular, or a beginning of at least two letters.
func Named(word string) (Kind, error) {
	lower := strings.ToLower(word)
	var names []string
	for _, k := range Kinds() {
		if len(lower) >= 2 && strings.HasPrefix(k.Name, lower) {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, wrong(settings.Unknown("kind", word, names))
}

func (k Kind) singular() string { return strings.TrimSuffix(k.Name, "s") }

// indexed notes the index of the registry in an answer.
func indexed[Request any, Response interface{ GetAppliedIndex() uint64 }](
	q *Query, call func(context.Context, Request, ...grpc.CallOption) (Response, error),
) func(context.Context, Request, ...grpc.CallOption) (Response, error) {
	return func(ctx context.Context, r Request, opts ...grpc.CallOption) (Response, error) {
		answer, err := call(ctx, r, opts...)
		if err == nil {
			q.Index = answer.GetAppliedIndex()
		}
		return answer, err
	}
}

func listMasters(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListMasters), q.Limit, q.list)
	return listingOf(&apiv1.ListMastersResponse{Items: items, AppliedIndex: q.Index}, items, more, masterColumns,
		(*apiv1.MasterView).GetId, nameless), err
}

func listAgents(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListAgents), q.Limit, q.list)
	return listingOf(&apiv1.ListAgentsResponse{Items: items, AppliedIndex: q.Index}, items, more, agentColumns,
		(*apiv1.AgentView).GetId, (*apiv1.AgentView).GetHostname), err
}

func listFrameworks(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListFrameworks), q.Limit, q.list)
	return listingOf(&apiv1.ListFrameworksResponse{Items: items, AppliedIndex: q.Index}, items, more, frameworkColumns,
		(*apiv1.FrameworkView).GetId, (*apiv1.FrameworkView).GetName), err
}

func listTasks(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, c.Operator().ListTasks, q.Limit, q.tasks)
	return listingOf(&apiv1.ListTasksResponse{Items: items}, items, more, taskColumns,
		TaskRef, (*apiv1.TaskView).GetName), err
}

func listOffers(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, c.Operator().ListOffers, q.Limit, q.list)
	return listingOf(&apiv1.ListOffersResponse{Items: items}, items, more, offerColumns,
		(*apiv1.OfferView).GetId, nameless), err
}

func listExecutors(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, c.Operator().ListExecutors, q.Limit, q.list)
	return listingOf(&apiv1.ListExecutorsResponse{Items: items}, items, more, executorColumns, executorRef, nameless), err
}

func executorRef(x *apiv1.ExecutorView) string { return x.GetFrameworkId() + "/" + x.GetId() }

func listOperations(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, c.Operator().ListOperations, q.Limit, q.list)
	return listingOf(&apiv1.ListOperationsResponse{Items: items}, items, more, operationColumns, operationRef, nameless), err
}

func operationRef(o *apiv1.OperationView) string { return o.GetFrameworkId() + "/" + o.GetId() }

func listRoles(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListRoles), q.Limit, q.list)
	return listingOf(&apiv1.ListRolesResponse{Items: items, AppliedIndex: q.Index}, items, more, roleColumns,
		(*apiv1.RoleView).GetRole, nameless), err
}

func listPrincipals(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	call := c.Operator().ListPrincipals
	if q.Stale {
		call = indexed(q, call)
	}
	items, more, err := client.All(ctx, call, q.Limit, q.list)
	return listingOf(&apiv1.ListPrincipalsResponse{Items: items, AppliedIndex: q.Index}, items, more, principalColumns,
		(*apiv1.PrincipalView).GetName, nameless), err
}

func listJobs(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, c.Jobs().ListJobs, q.Limit, func(token string, limit int32) *apiv1.ListJobsRequest {
		return &apiv1.ListJobsRequest{Prefix: q.Prefix, All: q.All, PageToken: token, Limit: cmp.Or(limit, api.PageItemsMax)}
	})
	return ListingOfJobs(items, more), err
}

// ListingOfJobs returns the list of these jobs.
func ListingOfJobs(items []*apiv1.JobStatus, more bool) *Listing {
	return listingOf(&apiv1.ListJobsResponse{Items: items}, items, more, jobColumns, (*apiv1.JobStatus).GetName, nameless)
}

func listSecrets(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	items, more, err := client.All(ctx, c.Operator().ListSecrets, q.Limit, q.list)
	return listingOf(&apiv1.ListSecretsResponse{Items: items}, items, more, secretColumns, (*apiv1.SecretView).GetName, nameless), err
}

// listTokens lists the tokens whose IDs begin with the query's prefix; the call has no pages.
func listTokens(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	answer, err := c.Operator().ListTokens(ctx, &apiv1.ListTokensRequest{})
	items := slices.DeleteFunc(answer.GetItems(), func(t *apiv1.TokenView) bool { return !strings.HasPrefix(t.GetId(), q.Prefix) })
	more := q.Limit > 0 && len(items) > q.Limit
	if more {
		items = items[:q.Limit]
	}
	return listingOf(&apiv1.ListTokensResponse{Items: items}, items, more, tokenColumns, (*apiv1.TokenView).GetId, (*apiv1.TokenView).GetPrincipal), err
}

// List asks the leader for everything that the query selects. A query for a stale read is given the registry's index.
func (k Kind) List(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	return k.list(ctx, c, q)
}

func nameless[T any](T) string { return "" }

// TaskRef returns a task as people write it: FRAMEWORK/TASK.
func TaskRef(t *apiv1.TaskView) string { return t.GetFrameworkId() + "/" + t.GetId() }
