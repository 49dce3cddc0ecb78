package cli

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
)

// query is what `get` can ask of a list.
type query struct {
	prefix, agent, framework, role string
	states                         []string
	all                            bool
	limit                          int
	stale                          bool
	index                          uint64 // of the registry, in the answer to a stale read
}

func (q *query) list(token string, limit int32) *apiv1.ListRequest {
	return &apiv1.ListRequest{
		Limit: limit, PageToken: token, Prefix: q.prefix, AgentId: q.agent, FrameworkId: q.framework, Role: q.role, States: q.states, Stale: q.stale, All: q.all,
	}
}

func (q *query) tasks(token string, limit int32) *apiv1.ListTasksRequest {
	return &apiv1.ListTasksRequest{
		Limit: limit, PageToken: token, Prefix: q.prefix, AgentId: q.agent, FrameworkId: q.framework, Role: q.role, States: q.states, All: q.all,
	}
}

// kind is a noun that has a list.
type kind struct {
	name    string // as `get` takes it; the singular and its start do too
	about   string
	filters []string // flags that mean something for it
	states  []string // what --state may name
	list    func(ctx context.Context, c *client.Client, q *query) (*listing, error)
}

// kinds in the order in which they are told.
var kinds = []kind{
	{"masters", "the masters and which one leads", []string{"state", "stale"}, masterStates, listMasters},
	{"agents", "the agents, their state and resources", []string{"state", "stale"}, agentStates, listAgents},
	{"frameworks", "the frameworks that are subscribed or may come back; --all also those that were removed", []string{"state", "role", "all", "stale"}, frameworkStates, listFrameworks},
	{"tasks", "the tasks; --all also those that have ended", []string{"state", "agent", "framework", "role", "all"}, taskStates(), listTasks},
	{"offers", "the offers that frameworks hold now", []string{"agent", "framework", "role"}, nil, listOffers},
	{"roles", "the roles with weight, priority and quota", []string{"stale"}, nil, listRoles},
}

var (
	masterStates    = []string{"leader", "follower", "non-voter", "unreachable"}
	agentStates     = []string{"INITING", "RUNNING", "BUSY", "DISCONNECTED", "TOMBSTONE"}
	frameworkStates = []string{"active", "disconnected", "removed"}
)

// taskStates are all that a list can show: UNKNOWN is only ever an answer to one framework.
func taskStates() (names []string) {
	for state := api.TaskStaging; state < api.TaskUnknown; state++ {
		names = append(names, state.String())
	}
	return names
}

// kindNamed finds a kind by its name, its singular or a start of at least two letters.
func kindNamed(word string) (kind, error) {
	lower := strings.ToLower(word)
	var names []string
	for _, k := range kinds {
		if len(lower) >= 2 && strings.HasPrefix(k.name, lower) {
			return k, nil
		}
		names = append(names, k.name)
	}
	return kind{}, unknownWord("kind", word, names)
}

func (k kind) singular() string { return strings.TrimSuffix(k.name, "s") }

// listing is a list that was fetched, ready to be shown in any form.
type listing struct {
	message proto.Message // the response with the items of all pages
	items   []item
	header  func(wide bool) []string
	more    bool // the limit cut it
}

// item is one row.
type item struct {
	id      string
	name    string // for people; may be ""
	message proto.Message
	cells   func(wide bool, now time.Time) []string
}

// column says how one value of an item is shown.
type column[T any] struct {
	title string
	wide  bool // only with -o wide
	cell  func(T, time.Time) string
}

// listingOf shows items by columns.
func listingOf[T proto.Message](
	message proto.Message, items []T, more bool, columns []column[T], id, name func(T) string,
) *listing {
	l := &listing{message: message, more: more}
	l.header = func(wide bool) []string {
		var titles []string
		for _, c := range columns {
			if wide || !c.wide {
				titles = append(titles, c.title)
			}
		}
		return titles
	}
	for _, one := range items {
		cells := func(wide bool, now time.Time) []string {
			var row []string
			for _, c := range columns {
				if wide || !c.wide {
					row = append(row, c.cell(one, now))
				}
			}
			return row
		}
		l.items = append(l.items, item{id: id(one), name: name(one), message: one, cells: cells})
	}
	return l
}

// text is a column without a clock.
func text[T any](title string, cell func(T) string) column[T] {
	return column[T]{title: title, cell: func(t T, _ time.Time) string { return cell(t) }}
}

// aged is a column with one.
func aged[T any](title string, cell func(T, time.Time) string) column[T] {
	return column[T]{title: title, cell: cell}
}

// wide keeps a column for -o wide.
func wide[T any](c column[T]) column[T] {
	c.wide = true
	return c
}

// indexed notes the registry's index that an answer shows.
func indexed[Request any, Response interface{ GetAppliedIndex() uint64 }](
	q *query, call func(context.Context, Request, ...grpc.CallOption) (Response, error),
) func(context.Context, Request, ...grpc.CallOption) (Response, error) {
	return func(ctx context.Context, r Request, opts ...grpc.CallOption) (Response, error) {
		answer, err := call(ctx, r, opts...)
		if err == nil {
			q.index = answer.GetAppliedIndex()
		}
		return answer, err
	}
}

func listMasters(ctx context.Context, c *client.Client, q *query) (*listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListMasters), q.limit, q.list)
	return listingOf(&apiv1.ListMastersResponse{Items: items, AppliedIndex: q.index}, items, more, masterColumns,
		(*apiv1.MasterView).GetId, nameless), err
}

func listAgents(ctx context.Context, c *client.Client, q *query) (*listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListAgents), q.limit, q.list)
	return listingOf(&apiv1.ListAgentsResponse{Items: items, AppliedIndex: q.index}, items, more, agentColumns,
		(*apiv1.AgentView).GetId, (*apiv1.AgentView).GetHostname), err
}

func listFrameworks(ctx context.Context, c *client.Client, q *query) (*listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListFrameworks), q.limit, q.list)
	return listingOf(&apiv1.ListFrameworksResponse{Items: items, AppliedIndex: q.index}, items, more, frameworkColumns,
		(*apiv1.FrameworkView).GetId, (*apiv1.FrameworkView).GetName), err
}

func listTasks(ctx context.Context, c *client.Client, q *query) (*listing, error) {
	items, more, err := client.All(ctx, c.Operator().ListTasks, q.limit, q.tasks)
	return listingOf(&apiv1.ListTasksResponse{Items: items}, items, more, taskColumns,
		taskRef, (*apiv1.TaskView).GetName), err
}

func listOffers(ctx context.Context, c *client.Client, q *query) (*listing, error) {
	items, more, err := client.All(ctx, c.Operator().ListOffers, q.limit, q.list)
	return listingOf(&apiv1.ListOffersResponse{Items: items}, items, more, offerColumns,
		(*apiv1.OfferView).GetId, nameless), err
}

func listRoles(ctx context.Context, c *client.Client, q *query) (*listing, error) {
	items, more, err := client.All(ctx, indexed(q, c.Operator().ListRoles), q.limit, q.list)
	return listingOf(&apiv1.ListRolesResponse{Items: items, AppliedIndex: q.index}, items, more, roleColumns,
		(*apiv1.RoleView).GetRole, nameless), err
}

func nameless[T any](T) string { return "" }

func taskRef(t *apiv1.TaskView) string { return t.GetFrameworkId() + "/" + t.GetId() }
