// Package nouns shows the objects of a cluster to people: masters, agents, frameworks, tasks, offers, roles and
// principals. It lists them by pages, finds the one that a word means, and prints in columns and in lines what is known
// of each. It reads no flags and changes nothing.
package nouns

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
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
	Incomplete                     error  // why something may be missing, from the answer; nil: nothing is
}

func (q *Query) list() *apiv1.ListRequest {
	return &apiv1.ListRequest{
		Prefix: q.Prefix, AgentId: q.Agent, FrameworkId: q.Framework, Role: q.Role, States: q.States, Stale: q.Stale, All: q.All,
	}
}

func (q *Query) tasks() *apiv1.ListTasksRequest {
	return &apiv1.ListTasksRequest{
		Prefix: q.Prefix, AgentId: q.Agent, FrameworkId: q.Framework, Role: q.Role, States: q.States, All: q.All,
	}
}

// Kind is a noun that can be listed.
type Kind struct {
	Name    string // as `get` takes it; the singular and its beginning work too
	About   string
	Filters []string // flags that have an effect for it
	States  []string // the values of --state
	watched string   // the kind as a watch calls it; "": a watch has only its events, or those of job managers
	source
}

// source is where the things of a kind come from.
type source struct {
	list func(ctx context.Context, c *client.Client, q *Query) (*Listing, error)
	view func(proto.Message) *Listing // lists the view of one thing
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
		[]string{"leader", "follower", "non-voter", "unreachable"},
		"master", paged(masterLooks, apiv1.OperatorServiceClient.ListMasters)}
	Agents = Kind{"agents", "the agents, their state and resources", []string{"state", "stale"},
		[]string{"INITING", "RUNNING", "BUSY", "DISCONNECTED", "TOMBSTONE"},
		"agent", paged(agentLooks, apiv1.OperatorServiceClient.ListAgents)}
	Frameworks = Kind{"frameworks", "the frameworks that are subscribed or may come back; --all also those that were removed",
		[]string{"state", "role", "all", "stale"}, []string{"active", "disconnected", "removed"},
		"framework", paged(frameworkLooks, apiv1.OperatorServiceClient.ListFrameworks)}
	Tasks = Kind{"tasks", "the tasks; --all also those that have ended", []string{"state", "agent", "framework", "role", "all"}, taskStates(),
		"task", source{listTasks, taskLooks.view}}
	Offers = Kind{"offers", "the offers that frameworks hold now", []string{"agent", "framework", "role"}, nil,
		"offer", paged(offerLooks, apiv1.OperatorServiceClient.ListOffers)}
	Executors = Kind{"executors", "the executors on agents, also those without tasks", []string{"agent", "framework", "role"}, nil,
		"", paged(executorLooks, apiv1.OperatorServiceClient.ListExecutors)}
	Operations = Kind{"operations", "the operations on resources that wait for the quorum; --all also those that the leader remembers", []string{"agent", "framework", "role", "all"}, nil,
		"", paged(operationLooks, apiv1.OperatorServiceClient.ListOperations)}
	Principals = Kind{"principals", "those to whom something was granted, and what; --all also those that were revoked", []string{"all", "stale"}, nil,
		"principal", paged(principalLooks, apiv1.OperatorServiceClient.ListPrincipals)}
	Endpoints = Kind{"endpoints", "where tasks that run (and pass their health checks) are reached, by their named ports; of a framework or a task",
		[]string{"agent", "framework", "role"}, nil, "task", source{listEndpoints, viewEndpoints}}
	Roles = Kind{"roles", "the roles with weight, priority and quota", []string{"stale"}, nil,
		"role", paged(roleLooks, apiv1.OperatorServiceClient.ListRoles)}
	Jobs = Kind{"jobs", "the jobs that job managers run; --all also those that have ended", []string{"all"}, nil,
		"", source{listJobs, jobLooks.view}}
	Secrets = Kind{"secrets", "the secrets of roles, without their values", []string{"role"}, nil,
		"secret", paged(secretLooks, apiv1.OperatorServiceClient.ListSecrets)}
	Tokens = Kind{"tokens", "the tokens with which others join, without their secrets", nil, nil,
		"token", source{listTokens, tokenLooks.view}}
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

// paged is what the leader lists by pages.
func paged[T proto.Message, Response page[T]](
	l looks[T], call func(apiv1.OperatorServiceClient, context.Context, *apiv1.ListRequest, ...grpc.CallOption) (Response, error),
) source {
	list := func(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
		return readAll(ctx, q, l, func(ctx context.Context, r *apiv1.ListRequest, options ...grpc.CallOption) (Response, error) {
			return call(c.Operator(), ctx, r, options...)
		}, q.list())
	}
	return source{list, l.view}
}

type page[T proto.Message] interface {
	proto.Message
	client.Page[T]
}

// readAll reads all pages of a list, up to the query's limit. The query is told what the answer says of the list as a
// whole.
func readAll[Request client.ForPage, T proto.Message, Response page[T]](
	ctx context.Context, q *Query, l looks[T], call func(context.Context, Request, ...grpc.CallOption) (Response, error), request Request,
) (*Listing, error) {
	items, more, err := client.All(ctx, func(ctx context.Context, r Request, options ...grpc.CallOption) (Response, error) {
		answer, err := call(ctx, r, options...)
		if indexed, is := any(answer).(interface{ GetAppliedIndex() uint64 }); is && q.Stale && err == nil {
			q.Index = indexed.GetAppliedIndex()
		}
		if told, is := any(answer).(interface{ GetIncomplete() *apiv1.Error }); is && err == nil && told.GetIncomplete() != nil {
			q.Incomplete = wire.ErrorFromProto(told.GetIncomplete())
		}
		return answer, err
	}, q.Limit, request)
	var none Response
	return l.listing(joined(none.ProtoReflect().New(), items, q.Index), items, more), err
}

// joined makes an empty answer one with the items of all pages.
func joined[T proto.Message](answer protoreflect.Message, items []T, index uint64) proto.Message {
	fields := answer.Descriptor().Fields()
	list := answer.Mutable(fields.ByName("items")).List()
	for _, item := range items {
		list.Append(protoreflect.ValueOfMessage(item.ProtoReflect()))
	}
	if field := fields.ByName("applied_index"); field != nil && index > 0 {
		answer.Set(field, protoreflect.ValueOfUint64(index))
	}
	return answer.Interface()
}

func listTasks(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	return readAll(ctx, q, taskLooks, c.Operator().ListTasks, q.tasks())
}

func listJobs(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	return readAll(ctx, q, jobLooks, c.Jobs().ListJobs, &apiv1.ListJobsRequest{Prefix: q.Prefix, All: q.All})
}

// ListingOfJobs returns the list of these jobs.
func ListingOfJobs(items []*apiv1.JobStatus) *Listing {
	return jobLooks.listing(&apiv1.ListJobsResponse{Items: items}, items, false)
}

func executorRef(x *apiv1.ExecutorView) string { return x.GetFrameworkId() + "/" + x.GetId() }

func operationRef(o *apiv1.OperationView) string { return o.GetFrameworkId() + "/" + o.GetId() }

// listTokens lists the tokens whose IDs begin with the query's prefix; the call has no pages.
func listTokens(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	answer, err := c.Operator().ListTokens(ctx, &apiv1.ListTokensRequest{})
	items := slices.DeleteFunc(answer.GetItems(), func(t *apiv1.TokenView) bool { return !strings.HasPrefix(t.GetId(), q.Prefix) })
	more := q.Limit > 0 && len(items) > q.Limit
	if more {
		items = items[:q.Limit]
	}
	return tokenLooks.listing(&apiv1.ListTokensResponse{Items: items}, items, more), err
}

// List asks the leader for everything that the query selects. A query for a stale read is given the registry's index.
func (k Kind) List(ctx context.Context, c *client.Client, q *Query) (*Listing, error) {
	return k.list(ctx, c, q)
}

// TaskRef returns a task as people write it: FRAMEWORK/TASK.
func TaskRef(t *apiv1.TaskView) string { return t.GetFrameworkId() + "/" + t.GetId() }
