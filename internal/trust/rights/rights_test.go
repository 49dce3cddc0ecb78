package rights_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/rights"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// callers returns a caller of each kind.
func callers() map[string]rights.Caller {
	person := func(grants ...rights.Grant) rights.Caller {
		return rights.Caller{Kind: rights.Person, Name: "ann", Grants: grants}
	}
	all := rights.Grant{Verb: rights.Admin}
	return map[string]rights.Caller{
		"anybody":  {Kind: rights.Anybody},
		"nobody":   {},
		"foreign":  {Kind: rights.Person, Name: "ann", Foreign: "other", Grants: []rights.Grant{all}},
		"revoked":  {Kind: rights.Person, Name: "ann", Revoked: "it was revoked", Grants: []rights.Grant{all}},
		"rev.m":    {Kind: rights.Master, Name: "m1", Revoked: "its certificate was revoked"},
		"master":   {Kind: rights.Master, Name: "m1"},
		"agent":    {Kind: rights.Agent, Name: "nonce"},
		"new":      person(),
		"runner":   {Kind: rights.Framework, Name: "etl", Grants: []rights.Grant{{Verb: rights.Run, Role: "eng"}}},
		"viewer":   person(rights.Grant{Verb: rights.View}),
		"view.eng": person(rights.Grant{Verb: rights.View, Role: "eng"}),
		"operator": person(rights.Grant{Verb: rights.Operate}),
		"killer":   person(rights.Grant{Verb: "kill-task", Role: "eng"}),
		"admin":    person(all),
		"browser":  {Kind: rights.Person, Name: "ann", Browser: true, Grants: []rights.Grant{all}},
	}
}

// TestWhoMayWhat prints the whole table for one caller of each kind: + may, o may with some objects, - may not.
func TestWhoMayWhat(t *testing.T) {
	var text strings.Builder
	names := []string{"anybody", "nobody", "foreign", "revoked", "rev.m", "master", "agent", "new", "runner", "viewer", "view.eng", "operator", "killer", "admin", "browser"}
	for _, row := range rights.Table {
		marks := make([]string, 0, len(names))
		for _, name := range names {
			marks = append(marks, name+mark(row, callers()[name]))
		}
		fmt.Fprintf(&text, "%s\n    %s\n", row.Call, strings.Join(marks, " "))
	}
	const file = "testdata/who"
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("who may what has changed; -rewrite and read the diff as its reviewer:\n%s", text.String())
	}
}

// TestThePageShowsTheTable checks that docs/security.md has the table between two marks.
func TestThePageShowsTheTable(t *testing.T) {
	const file, begin, end = "../../../docs/security.md", "<!-- rights: written by go test ./internal/trust/rights -rewrite -->\n", "<!-- /rights -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), begin)
	shown, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table: %q and %q", file, begin, end)
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(before+begin+rights.Markdown()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != rights.Markdown() {
		t.Errorf("%s shows another table: go test ./internal/trust/rights -rewrite", file)
	}
}

func mark(row rights.Row, caller rights.Caller) string {
	scope, err := rights.Decide(row, caller)
	switch {
	case err != nil && err.Kind != api.Denied:
		return fmt.Sprint("!", err)
	case err != nil && !scope.Equal(rights.Scope{}):
		return "!scope"
	case err != nil:
		return "-"
	case scope.Covers(rights.Object{}):
		return "+"
	}
	return "o"
}

// TestEveryMethodHasItsRow checks the methods of all services. HTTP routes are checked where they are served.
func TestEveryMethodHasItsRow(t *testing.T) {
	calls := map[string]bool{}
	for _, service := range []grpc.ServiceDesc{
		apiv1.SchedulerService_ServiceDesc, apiv1.AgentService_ServiceDesc, apiv1.OperatorService_ServiceDesc, apiv1.RaftService_ServiceDesc,
		apiv1.StoreService_ServiceDesc, apiv1.MasterService_ServiceDesc, apiv1.AllocatorService_ServiceDesc, apiv1.ExecutorService_ServiceDesc,
		apiv1.JobService_ServiceDesc, apiv1.TrustService_ServiceDesc, apiv1.WatchService_ServiceDesc,
	} {
		for _, method := range service.Methods {
			calls["/"+service.ServiceName+"/"+method.MethodName] = true
		}
		for _, stream := range service.Streams {
			calls["/"+service.ServiceName+"/"+stream.StreamName] = true
		}
	}
	for call := range calls {
		if _, has := rights.RowOf(call); !has {
			t.Errorf("%s has no row in the table, so that nobody may call it: say who may", call)
		}
	}
	seen := map[string]bool{}
	for _, row := range rights.Table {
		switch {
		case seen[row.Call]:
			t.Errorf("%s has two rows", row.Call)
		case strings.HasPrefix(row.Call, "/tender.") && !calls[row.Call]:
			t.Errorf("%s is no method any more", row.Call)
		case row.On == "":
			t.Errorf("%s does not say on what it is", row.Call)
		case row.Verb == rights.None && row.Action != "":
			t.Errorf("%s has an action that no grant gives", row.Call)
		case strings.HasPrefix(row.Call, "browser ") && row.Changes:
			t.Errorf("%s changes something, which no cookie may", row.Call)
		case slices.Contains(row.Kinds, rights.Nobody) && (len(row.Kinds) > 1 || row.Verb != rights.None):
			t.Errorf("%s is open to everybody, and says more", row.Call)
		}
		seen[row.Call] = true
	}
}

func TestAScopeCoversWhatWasGranted(t *testing.T) {
	row, _ := rights.RowOf("/tender.v1.OperatorService/KillTask")
	scope, err := rights.Decide(row, rights.Caller{Kind: rights.Person, Name: "ann", Grants: []rights.Grant{
		{Verb: rights.Operate, Role: "eng"}, {Verb: rights.View}, {Verb: "kill-task", Framework: "framework-9"}, {Verb: rights.Run, Role: "ops"},
		{Verb: rights.Admin, Agent: "host1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		object rights.Object
		covers bool
	}{
		{rights.Object{}, false},
		{rights.Object{Role: "eng"}, true},
		{rights.Object{Role: "eng/web", Framework: "framework-1"}, true},
		{rights.Object{Role: "engine"}, false},
		{rights.Object{Role: "ops"}, false},
		{rights.Object{Role: "ops", Framework: "framework-9"}, true},
		{rights.Object{Role: "ops", Name: "framework-9"}, true},
		{rights.Object{Role: "ops", Principal: "ann"}, true}, // her own
		{rights.Object{Role: "ops", Principal: "bob"}, false},
		{rights.Object{Role: "ops", Agent: "agent-1", Hostname: "host1"}, true},
		{rights.Object{Role: "ops", Agent: "agent-2", Hostname: "host2"}, false},
	} {
		if got := scope.Covers(test.object); got != test.covers {
			t.Errorf("covers %+v: %v", test.object, got)
		}
	}
	if scope.As(rights.Admin).Covers(rights.Object{Role: "eng"}) || !scope.As(rights.Admin).Covers(rights.Object{Hostname: "host1"}) {
		t.Error("as an admin she has more or less than was granted")
	}
	if scope.Reveals(rights.Object{Role: "eng", Principal: "bob"}) || !scope.Reveals(rights.Object{Principal: "ann"}) ||
		!scope.Reveals(rights.Object{Hostname: "host1"}) {
		t.Error("environments are for their owner and admins")
	}
	if (rights.Scope{}).Covers(rights.Object{}) || (rights.Scope{Own: true}).Covers(rights.Object{}) {
		t.Error("who has nothing owns what is nobody's")
	}
}

func TestTasksRunAsGrantedUsersOnly(t *testing.T) {
	row, _ := rights.RowOf("/tender.v1.SchedulerService/Session")
	scope, err := rights.Decide(row, rights.Caller{Kind: rights.Framework, Name: "etl", Grants: []rights.Grant{
		{Verb: rights.Run, Role: "eng", User: "etl"}, {Verb: rights.Run, Role: "ops", User: rights.AnyUser}, {Verb: rights.Run, Role: "web"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		role api.Role
		user string
		may  bool
	}{
		{"eng", "", true}, {"eng", "etl", true}, {"eng", "root", false}, {"ops", "root", true}, {"web", "", true}, {"web", "etl", false}, {"x", "", false},
	} {
		if got := scope.MayRunAs(rights.Object{Role: test.role}, test.user); got != test.may {
			t.Errorf("in role %s as %q: %v", test.role, test.user, got)
		}
	}
}

func TestNobodyGivesMoreThanHeHas(t *testing.T) {
	mine := rights.Scope{Who: "ann", Grants: []rights.Grant{{Verb: rights.Admin, Role: "eng"}, {Verb: rights.Operate}}}
	for _, test := range []struct {
		grant rights.Grant
		may   bool
	}{
		{rights.Grant{Verb: rights.Run, Role: "eng/web"}, true},
		{rights.Grant{Verb: rights.Admin, Role: "eng"}, true},
		{rights.Grant{Verb: rights.Run}, false},
		{rights.Grant{Verb: rights.View, Role: "ops"}, false},
		{rights.Grant{Verb: rights.Operate, Role: "ops"}, false},
	} {
		if got := mine.MayGive(test.grant); got != test.may {
			t.Errorf("gives %q: %v", test.grant, got)
		}
	}
}

// TestNobodyGivesUsersWhomHeHasNot: an admin for one user can't make anybody an admin for every user, not even himself.
func TestNobodyGivesUsersWhomHeHasNot(t *testing.T) {
	for _, test := range []struct {
		mine, grant rights.Grant
		may         bool
	}{
		{rights.Grant{Verb: rights.Admin, User: "bob"}, rights.Grant{Verb: rights.Admin}, false},
		{rights.Grant{Verb: rights.Admin, User: "bob"}, rights.Grant{Verb: rights.Admin, User: rights.AnyUser}, false},
		{rights.Grant{Verb: rights.Admin, User: "bob"}, rights.Grant{Verb: rights.Run, User: "root"}, false},
		{rights.Grant{Verb: rights.Admin, User: "bob"}, rights.Grant{Verb: rights.Admin, User: "bob"}, true},
		{rights.Grant{Verb: rights.Admin, User: "bob"}, rights.Grant{Verb: rights.Run, User: "bob"}, true},
		{rights.Grant{Verb: rights.Admin, User: "bob"}, rights.Grant{Verb: rights.Run}, true}, // as no particular user
		{rights.Grant{Verb: rights.Admin, User: "bob"}, rights.Grant{Verb: rights.View}, true},
		{rights.Grant{Verb: rights.Admin}, rights.Grant{Verb: rights.Admin, User: rights.AnyUser}, true},
		{rights.Grant{Verb: rights.Admin, User: rights.AnyUser}, rights.Grant{Verb: rights.Admin}, true},
	} {
		if got := (rights.Scope{Who: "ann", Grants: []rights.Grant{test.mine}}).MayGive(test.grant); got != test.may {
			t.Errorf("who has %q gives %q: %v", test.mine, test.grant, got)
		}
		for _, user := range []string{"bob", "root"} { // a grant that may be given allows nothing that its giver may not do
			given, had := rights.Scope{Grants: []rights.Grant{test.grant}}, rights.Scope{Grants: []rights.Grant{test.mine}}
			if test.may && given.MayRunAs(rights.Object{}, user) && !had.MayRunAs(rights.Object{}, user) {
				t.Errorf("%q lets tasks run as %s, which %q does not", test.grant, user, test.mine)
			}
		}
	}
}

// TestARefusalSaysWhatIsMissing: it names the missing grant, and how it is given.
func TestARefusalSaysWhatIsMissing(t *testing.T) {
	kill, _ := rights.RowOf("/tender.v1.OperatorService/KillTask")
	peers, _ := rights.RowOf("/tender.v1.RaftService/AddPeer")
	announce, _ := rights.RowOf("/tender.v1.MasterService/Announce")
	of := func(row rights.Row, caller rights.Caller) *api.Error {
		_, err := rights.Decide(row, caller)
		return err
	}
	for want, err := range map[string]*api.Error{
		"it needs the grant 'operate' or 'kill-task'; an operator gives it: tender grant ann kill-task":               of(kill, callers()["viewer"]),
		"on framework framework-7, role eng/web; an operator gives it: tender grant ann kill-task --role eng/web":     rights.Refuse(kill, "ann", rights.Object{Role: "eng/web", Framework: "framework-7"}),
		"it needs a certificate of this cluster; an operator gives a token for one: tender token create":              of(kill, callers()["nobody"]),
		"may not add peer: it needs the grant 'admin' or 'add-peer'; an operator gives it: tender grant ann add-peer": of(peers, callers()["operator"]),
		"only masters may":            of(announce, callers()["admin"]),
		"it was revoked":              of(kill, callers()["revoked"]),
		"the page has no form for it": of(peers, callers()["browser"]),
	} {
		if err == nil || err.Kind != api.Denied || !strings.Contains(err.Error(), want) {
			t.Errorf("refused with %v; want %q in it", err, want)
		}
	}
}

func TestGrantsAreCheckedAndWritten(t *testing.T) {
	for text, grant := range map[string]rights.Grant{
		"run --role eng/web --user etl":  {Verb: rights.Run, Role: "eng/web", User: "etl"},
		"kill-task --framework 'my job'": {Verb: "kill-task", Framework: "my job"},
		"view --agent host1":             {Verb: rights.View, Agent: "host1"},
	} {
		if err := grant.Check(); err != nil || grant.String() != text {
			t.Errorf("%q: %q, %v", text, grant, err)
		}
	}
	for _, wrong := range []rights.Grant{
		{}, {Verb: "fly"}, {Verb: rights.Run, Role: "a//b"}, {Verb: rights.View, User: "root"}, {Verb: rights.View, Agent: "a\nb"},
		{Verb: rights.View, Framework: strings.Repeat("x", api.IDBytesMax+1)},
	} {
		if wrong.Check() == nil {
			t.Errorf("%+v can be granted", wrong)
		}
	}
}
