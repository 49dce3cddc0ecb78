package browser

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/internal/guard"
	"github.com/tenderhq/tender/master/internal/intake"
)

//go:embed style.css
var style string

// rowsMax bounds the rows of each table; the JSON has all of them.
const rowsMax = 50

// loginPage is the content of the login page. Error says why the last try failed.
type loginPage struct{ Error string }

// clusterPage is the content of the first page.
type clusterPage struct {
	Who, Until string
	Summary    []field
	Tables     []table
	Links      []string // names of methods
}

type field struct{ Name, Value string }

// table is a list as the method named Method returns it.
type table struct {
	Title, Method string
	Columns       []string
	Rows          [][]string
	More          bool
	Error         string // why there are no rows
}

// page is the login page or the cluster page.
type page interface{ write(m *markup) }

// render writes the whole page before it sends it.
func (p *Pages) render(w http.ResponseWriter, code int, page page) {
	var m markup
	page.write(&m)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, m.page.String())
}

// refuseLogin shows the login page again, with the reason.
func (p *Pages) refuseLogin(w http.ResponseWriter, err error) {
	known := wire.Error(err)
	code := http.StatusServiceUnavailable
	switch known.Kind {
	case api.Invalid:
		code = http.StatusBadRequest
	case api.Denied:
		code = http.StatusForbidden
	case api.Limit:
		code = http.StatusTooManyRequests
		w.Header().Set("Retry-After", strconv.Itoa(int(guard.BusyRetry/time.Second)))
	default: // nobody leads, or the leader has just changed
	}
	p.render(w, code, loginPage{Error: sentenceOf(known)})
}

// kindOf returns the result of a login for the metrics.
func kindOf(err error) string { return wire.Error(err).Kind.String() }

// sentenceOf returns what is wrong as a sentence for people.
func sentenceOf(err error) string {
	known := wire.Error(err)
	if known.Err == nil {
		return known.Error()
	}
	return known.Err.Error()
}

// showCluster shows the first page: a short form of the lists that the JSON has.
func (p *Pages) showCluster(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	one, _ := ctx.Value(sessionKey{}).(session)
	p.render(w, http.StatusOK, clusterPage{
		Who:     guard.CallerOf(ctx).Name,
		Until:   one.ends.UTC().Format("2006-01-02 15:04 MST"),
		Summary: p.summary(ctx),
		Tables:  []table{p.agents(ctx), p.frameworks(ctx), p.tasks(ctx)},
		Links:   []string{"GetCluster", "ListMasters", "ListAgents", "ListFrameworks", "ListTasks", "ListOffers", "ListRoles", "ListPrincipals", "WhoAmI"},
	})
}

// ask makes a call whose answer has the type M. It is charged like a call that a program makes.
func ask[M proto.Message](ctx context.Context, p *Pages, method string, request proto.Message) (answer M, err error) {
	if !intake.SenderOf(ctx).Pay(ctx, intake.CallsExpense, intake.LookPrice) {
		return answer, ctx.Err()
	}
	message, err := p.config.Ask(ctx, method, request)
	if err != nil {
		return answer, err
	}
	answer, is := message.(M)
	if !is {
		return answer, errors.New("the answer is of another type")
	}
	return answer, nil
}

func (p *Pages) summary(ctx context.Context) []field {
	cluster, err := ask[*apiv1.ClusterView](ctx, p, "GetCluster", &apiv1.GetClusterRequest{})
	if err != nil {
		return []field{{"Cluster", sentenceOf(err)}}
	}
	leader := "nobody"
	if cluster.GetLeaderId() != "" {
		leader = cluster.GetLeaderId() + " at " + cluster.GetLeaderAddress()
	}
	return []field{
		{"Cluster", cluster.GetClusterId()}, {"Leader", leader}, {"This master", string(p.config.Master)},
		{"Masters", strings.Join(cluster.GetMasterAddresses(), ", ")}, {"Allocator", cluster.GetAllocator()}, {"Version", cluster.GetVersion()},
	}
}

// rows fills a table with one page of a list.
func rows[V any](t table, items []V, more string, err error, row func(V) []string) table {
	if err != nil {
		t.Error = sentenceOf(err)
		return t
	}
	t.More = more != ""
	for _, item := range items {
		t.Rows = append(t.Rows, row(item))
	}
	return t
}

func (p *Pages) agents(ctx context.Context) table {
	list, err := ask[*apiv1.ListAgentsResponse](ctx, p, "ListAgents", &apiv1.ListRequest{Limit: rowsMax, Stale: true})
	t := table{Title: "Agents", Method: "ListAgents", Columns: []string{"ID", "Host", "State", "Tasks", "Free", "Why"}}
	return rows(t, list.GetItems(), list.GetNextPageToken(), err, func(v *apiv1.AgentView) []string {
		return []string{v.GetId(), v.GetHostname(), v.GetState(), strconv.Itoa(int(v.GetTasks())), wire.ResourcesText(v.GetFree()), v.GetWhy()}
	})
}

func (p *Pages) frameworks(ctx context.Context) table {
	list, err := ask[*apiv1.ListFrameworksResponse](ctx, p, "ListFrameworks", &apiv1.ListRequest{Limit: rowsMax, Stale: true})
	t := table{Title: "Frameworks", Method: "ListFrameworks", Columns: []string{"ID", "Name", "State", "Roles", "Tasks", "Offers", "Allocated"}}
	return rows(t, list.GetItems(), list.GetNextPageToken(), err, func(v *apiv1.FrameworkView) []string {
		return []string{
			v.GetId(), v.GetName(), v.GetState(), strings.Join(v.GetRoles(), " "), strconv.Itoa(int(v.GetTasks())), strconv.Itoa(int(v.GetOffers())),
			wire.ResourcesText(v.GetAllocated()),
		}
	})
}

func (p *Pages) tasks(ctx context.Context) table {
	list, err := ask[*apiv1.ListTasksResponse](ctx, p, "ListTasks", &apiv1.ListTasksRequest{Limit: rowsMax})
	t := table{Title: "Tasks", Method: "ListTasks", Columns: []string{"ID", "Name", "Framework", "Role", "State", "Host", "Since", "Message"}}
	return rows(t, list.GetItems(), list.GetNextPageToken(), err, func(v *apiv1.TaskView) []string {
		since := ""
		if at := v.GetSince(); at != nil {
			since = at.AsTime().Format(time.RFC3339)
		}
		return []string{v.GetId(), v.GetName(), v.GetFrameworkName(), v.GetRole(), v.GetState(), v.GetHostname(), since, v.GetMessage()}
	})
}
