package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/routes"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/web"
)

// hostile is a text that would end elements and begin others, were it not escaped.
const hostile = `"'></td></a></text></svg></title></style><script>alert(1)</script><!-- &amp; javascript:alert(1)`

// filled is a message with the text in every field that holds texts, and one item in every list.
func filled(message proto.Message, text string) proto.Message {
	fill(message.ProtoReflect(), text, 0)
	return message
}

func fill(m protoreflect.Message, text string, depth int) {
	if depth > 6 || m.Descriptor().FullName() == "google.protobuf.Timestamp" {
		return
	}
	value := func(field protoreflect.FieldDescriptor, fresh func() protoreflect.Value) (protoreflect.Value, bool) {
		switch field.Kind() {
		case protoreflect.StringKind:
			if strings.Contains(string(field.Name()), "page_token") {
				return protoreflect.Value{}, false
			}
			return protoreflect.ValueOfString(text), true
		case protoreflect.MessageKind:
			inner := fresh()
			fill(inner.Message(), text, depth+1)
			return inner, true
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(3), true
		case protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(3), true
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(0.5), true
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true), true
		}
		return protoreflect.Value{}, false
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case field.IsMap():
			of := m.Mutable(field).Map()
			if item, has := value(field.MapValue(), of.NewValue); has && field.MapKey().Kind() == protoreflect.StringKind {
				of.Set(protoreflect.ValueOfString(text).MapKey(), item)
			}
		case field.IsList():
			list := m.Mutable(field).List()
			if item, has := value(field, list.NewElement); has {
				list.Append(item)
			}
		default:
			if item, has := value(field, func() protoreflect.Value { return m.NewField(field) }); has {
				m.Set(field, item)
			}
		}
	}
}

// answering is a cluster all of whose names and sentences are the text.
func answering(text string) *fake {
	f := &fake{answers: map[string]func() (proto.Message, error){}, changed: make(chan *apiv1.Change)}
	views := (&apiv1.Change{}).ProtoReflect().Descriptor().Oneofs().ByName("view").Fields()
	for i := range views.Len() {
		one := &apiv1.Change{}
		one.ProtoReflect().Set(views.Get(i), protoreflect.ValueOfMessage(filled(newMessage(views.Get(i).Message()), text).ProtoReflect()))
		f.state = append(f.state, one)
	}
	for _, service := range []protoreflect.FileDescriptor{apiv1.File_api_v1_operator_proto, apiv1.File_api_v1_jobs_proto, apiv1.File_api_v1_watch_proto} {
		for i := range service.Services().Len() {
			methods := service.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				f.answers[string(method.Name())] = func() (proto.Message, error) {
					return filled(newMessage(method.Output()), text), nil
				}
			}
		}
	}
	return f
}

func ask(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// TestEveryNameIsShownAsAText: whatever agents, frameworks and people have called things stands in the views as a text.
func TestEveryNameIsShownAsAText(t *testing.T) {
	page := web.New(web.Config{Cluster: answering(hostile)})
	for _, path := range views(hostile) {
		answer := ask(page.Handler(), http.MethodGet, path)
		if answer.Code != http.StatusOK {
			t.Errorf("%s is answered with %d %s", path, answer.Code, answer.Body)
		}
		for name, values := range answer.Header() {
			if strings.Contains(strings.Join(values, ""), "alert") {
				t.Errorf("%s is answered with the name in %s: %q", path, name, values)
			}
		}
		if framing := answer.Header().Get("X-Frame-Options"); framing != "DENY" {
			t.Errorf("%s may be framed: %q", path, framing)
		}
		document, err := html.Parse(strings.NewReader(answer.Body.String()))
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for node := range document.Descendants() {
			switch {
			case node.Type == html.CommentNode:
				t.Errorf("%s has a comment: %s", path, node.Data)
			case node.Type == html.TextNode && strings.Contains(node.Data, hostile):
				seen++
			case node.Type == html.ElementNode:
				checkElement(t, path, node)
			}
		}
		if seen == 0 && path != "/help" {
			t.Errorf("%s does not show the name: %s", path, answer.Body)
		}
	}
}

// TestAReasonIsSaidOnce: a job that waits in vain says the same as why it is so and as why it waits.
func TestAReasonIsSaidOnce(t *testing.T) {
	cluster := answering("x")
	job := &apiv1.JobStatus{Name: "train", Phase: "RUNNING", Why: "no agent is large enough", Waits: []string{"no agent is large enough", "the quota of eng is used up"}}
	cluster.answers["ListJobs"] = func() (proto.Message, error) { return &apiv1.ListJobsResponse{Items: []*apiv1.JobStatus{job}}, nil }
	cluster.answers["GetJob"] = func() (proto.Message, error) { return job, nil }
	cluster.answers["Explain"] = func() (proto.Message, error) {
		return nil, api.E("fake", api.NotFound, "train", errors.New("no framework is called so"))
	}
	page := web.New(web.Config{Cluster: cluster})
	defer page.End()
	for _, path := range []string{"/jobs", "/jobs/train", "/why?q=train"} {
		body := ask(page.Handler(), http.MethodGet, path).Body.String()
		if strings.Count(body, "no agent is large enough.") != 1 || !strings.Contains(body, "the quota of eng is used up.") {
			t.Errorf("%s says its reasons so: %s", path, body)
		}
	}
}

// TestTheCalendarOfACronJob has the runs that have ended and those to come, in the zone of the schedule.
func TestTheCalendarOfACronJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at midnight in UTC, on Saturday, 1 January 2000
		cluster := answering("x")
		job := &apiv1.JobStatus{Name: "backup", Type: "cron", Phase: "RUNNING", NextRun: timestamppb.Now(), Runs: []*apiv1.JobRun{{Number: 1, Due: timestamppb.New(time.Now().Add(-time.Hour)), State: "failure"}}}
		cluster.answers["GetJob"] = func() (proto.Message, error) { return job, nil }
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		for schedule, wants := range map[string][]string{ // order: irrelevant because each is asked for itself
			"30 2 * * mon-fri": {"Monday, 3 January; due: 02:30", "Saturday, 1 January; was: 00:00 failure", "<title>Sunday, 2 January</title>", ">02:30<"},
			"*/5 * * * *":      {"Sunday, 2 January; due: 00:00, 00:05,", "00:55, and more", ">many<"},
		} {
			cron, err := structpb.NewStruct(map[string]any{"name": "backup", "cron": map[string]any{"schedule": schedule, "zone": "Europe/Berlin"}})
			if err != nil {
				t.Fatal(err)
			}
			cluster.answers["GetJobHistory"] = func() (proto.Message, error) {
				return &apiv1.GetJobHistoryResponse{Items: []*apiv1.JobVersion{{Current: true, Job: cron}}}, nil
			}
			body := ask(page.Handler(), http.MethodGet, "/jobs/backup").Body.String()
			for _, want := range wants {
				if !strings.Contains(body, want) {
					t.Errorf("the calendar of %s lacks %q: %s", schedule, want, body)
				}
			}
		}
	})
}

// TestViewsAreAll: the tests ask for every view that there is.
func TestViewsAreAll(t *testing.T) {
	asked := []string{"GET /nothing", "GET /tasks/f/t/files", "GET /tasks/f/t/file", "GET /tasks/f/t/stdout", "GET /tasks/f/t/stderr", "GET /usage.csv", "GET /events", "POST /exec/x", "POST /exec/x/keys"}
	for _, path := range views("x") {
		asked = append(asked, "GET "+path)
		if strings.HasPrefix(path, "/do/") {
			asked = append(asked, "POST "+path)
		}
	}
	if missing := routes.Missing(web.Routes(), asked); missing != nil {
		t.Errorf("no test asks for %v", missing)
	}
	if missing := routes.Missing(web.Routes(), asked[9:]); len(missing) != 9 {
		t.Errorf("of the nine that are left out %v are found", missing)
	}
}

// TestManyAgentsComeWithTheFirstPatch: the page of many agents comes without their picture, which a tab is sent at once.
// Whoever has no script, and whoever looks at the past, gets it with the page.
func TestManyAgentsComeWithTheFirstPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := web.New(web.Config{Cluster: large(700, 700)})
		defer page.End()
		const drawn = `data-agents="agent-0`
		ask(page.Handler(), http.MethodGet, "/help")
		<-time.After(10 * time.Second)
		at := time.Now().Unix() - 1
		if body := ask(page.Handler(), http.MethodGet, "/?size=mem").Body.String(); strings.Contains(body, drawn) || !strings.Contains(body, `<noscript><p><a href="/?size=mem&amp;whole=1">`) {
			t.Errorf("the page comes with its picture, or no way to it: %s", body)
		}
		for _, path := range []string{"/?whole=1", fmt.Sprint("/?at=", at)} {
			if body := ask(page.Handler(), http.MethodGet, path).Body.String(); !strings.Contains(body, drawn) {
				t.Errorf("%s has no picture: %s", path, body)
			}
		}
		reader, writer := newPipe()
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			page.Handler().ServeHTTP(writer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?at=/", nil))
			writer.Close()
		}()
		lines := bufio.NewScanner(reader)
		lines.Buffer(nil, 1<<22)
		if first := nextPatch(t, lines); !strings.Contains(first["picture"], drawn) {
			t.Errorf("a tab is sent %v at first", first)
		}
		leave()
		for lines.Scan() { // until it has ended
			continue
		}
	})
}

// checkElement refuses what a page with our headers must not have, or could not use.
func checkElement(t *testing.T, path string, node *html.Node) {
	t.Helper()
	for _, attribute := range node.Attr {
		switch name := attribute.Key; {
		case strings.HasPrefix(name, "on"), name == "style":
			t.Errorf("%s has %s=%q at <%s>", path, name, attribute.Val, node.Data)
		case name == "href" || name == "src" || name == "action":
			if !ours(attribute.Val) {
				t.Errorf("%s leads to %q", path, attribute.Val)
			}
		}
	}
	if node.Data == "script" && (node.FirstChild != nil || !slices.ContainsFunc(node.Attr, func(a html.Attribute) bool { return a.Key == "src" && a.Val == "/page.js" })) {
		t.Errorf("%s has a script that is not ours", path)
	}
}

// TestATabIsSentWhatHasChanged, and nothing else; at most twice a second.
func TestATabIsSentWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := answering("quiet")
		cluster.state = nil
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		reader, writer := newPipe()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go page.Handler().ServeHTTP(writer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?at=/tasks", nil))
		lines := bufio.NewScanner(reader)
		lines.Buffer(nil, 1<<20)
		if first := nextPatch(t, lines); len(first) != 3 || !strings.Contains(first["list"], "There are no tasks") {
			t.Errorf("at first it is sent %v", first)
		}
		began := time.Now()
		cluster.changed <- &apiv1.Change{View: &apiv1.Change_Task{Task: &apiv1.TaskView{Id: "t1", FrameworkId: "f1", State: "RUNNING"}}}
		if next := nextPatch(t, lines); len(next) != 2 || !strings.Contains(next["list"], `href="/tasks/f1/t1"`) {
			t.Errorf("then it is sent %v", next)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a change is shown after %v", took)
		}
		cluster.answers["WhoAmI"] = func() (proto.Message, error) {
			return nil, api.E("fake", api.Denied, "ann", errors.New("it was revoked"))
		}
		cluster.changed <- &apiv1.Change{Event: &apiv1.Event{Kind: "principal", Name: "ann", What: "revoked"}}
		cluster.changed <- &apiv1.Change{Removed: "task/f1/t1"}
		for lines.Scan() && lines.Text() != "event: gone" {
			if strings.HasPrefix(lines.Text(), "event: ") {
				t.Errorf("whoever may not look any more is sent %s", lines.Text())
			}
		}
	})
}

// TestATabEndsWithTheLogin, and says so, and takes nothing with it.
func TestATabEndsWithTheLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := web.New(web.Config{Cluster: answering("x")})
		defer page.End()
		reader, writer := newPipe()
		ctx := web.WithViewer(t.Context(), web.Viewer{Name: "ann", Until: time.Now().Add(time.Minute)})
		go func() {
			page.Handler().ServeHTTP(writer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?at=/tasks", nil))
			writer.Close()
		}()
		said, err := io.ReadAll(reader)
		if err != nil || !strings.HasSuffix(string(said), "event: gone\ndata: \n\n") {
			t.Errorf("at the end of the login the tab is told %q, %v", said[max(0, len(said)-100):], err)
		}
	})
}

// nextPatch returns the blocks of the next patch.
func nextPatch(t *testing.T, lines *bufio.Scanner) (blocks map[string]string) {
	t.Helper()
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			if err := json.Unmarshal([]byte(data), &blocks); err != nil {
				t.Fatal(err)
			}
			return blocks
		}
	}
	t.Fatalf("the stream has ended: %v", lines.Err())
	return nil
}

// TestAnotherSitesFormIsRefused: every action is a form, and has to come from the page itself.
func TestAnotherSitesFormIsRefused(t *testing.T) {
	page := web.New(web.Config{Cluster: answering("x")}).Handler()
	for _, path := range views("x") {
		path, query, _ := strings.Cut(path, "?")
		if !strings.HasPrefix(path, "/do/") {
			continue
		}
		for _, header := range []map[string]string{{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}} {
			request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(query))
			for name, value := range header {
				request.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			if page.ServeHTTP(w, request); w.Code != http.StatusForbidden {
				t.Errorf("%s by a form with %v is answered with %d", path, header, w.Code)
			}
		}
	}
}

// TestNoAddressLeadsElsewhere: an address that names another host, however it is written, neither redirects to it nor has
// links to it, at any moment.
func TestNoAddressLeadsElsewhere(t *testing.T) {
	page := web.New(web.Config{Cluster: answering("x")})
	defer page.End()
	for _, path := range []string{"//evil.example/x", "/%2Fevil.example/x", "/%2F%2Fevil.example", "/%5Cevil.example/x", "/tasks/..%2F..%2F%2Fevil.example/x", "/%09/evil.example", "/.%2F%2Fevil.example"} {
		for _, query := range []string{"", "?at=1", "?at=99999999999", "?at=99999999999&q=%0d%0aSet-Cookie:x=y"} {
			answer := ask(page.Handler(), http.MethodGet, path+query)
			if to := answer.Header().Get("Location"); to != "" && !ours(to) {
				t.Errorf("%s leads to %q", path+query, to)
			}
			document, err := html.Parse(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			for node := range document.Descendants() {
				if node.Type == html.ElementNode {
					checkElement(t, path+query, node)
				}
			}
		}
	}
}

// ours says whether an address is one of this host. A backslash is a slash to browsers, but not in a query.
func ours(address string) bool {
	path, _, _ := strings.Cut(address, "?")
	return address == "" || strings.HasPrefix(address, "#") || strings.HasPrefix(address, "?") ||
		strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && !strings.Contains(path, "\\") && !strings.ContainsAny(address, "\r\n\t")
}

// TestFormsAreWhatACookieMayChange: each change that the table of rights gives to cookies has a form, and no other has.
func TestFormsAreWhatACookieMayChange(t *testing.T) {
	cluster := answering("x")
	service, err := structpb.NewStruct(map[string]any{"name": "x", "service": map[string]any{"count": 1}, "cron": map[string]any{"schedule": "@daily"}})
	if err != nil {
		t.Fatal(err)
	}
	cluster.answers["GetJobHistory"] = func() (proto.Message, error) {
		return &apiv1.GetJobHistoryResponse{Items: []*apiv1.JobVersion{{Current: true, Job: service}}}, nil
	}
	page := web.New(web.Config{Cluster: cluster}).Handler()
	for _, path := range views("x") {
		path, query, is := strings.Cut(path, "?")
		if !is || !strings.HasPrefix(path, "/do/") {
			continue
		}
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(query))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if page.ServeHTTP(w, request); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Back to it") {
			t.Errorf("%s is answered with %d %s", path, w.Code, w.Body)
		}
	}
	for _, row := range rights.Table {
		if _, called := cluster.called.Load(row.Call); row.Changes && called != row.Page {
			t.Errorf("%s: the page does it: %v, and the table says %v", row.Call, called, row.Page)
		}
	}
}

// TestFormsOfAJobCarryWhatWasSeen: R77. A form by which a job is changed names the version that its reader has seen: the
// one that it was filled in with, or that of the plan which it shows.
func TestFormsOfAJobCarryWhatWasSeen(t *testing.T) {
	cluster := answering("x")
	cluster.answers["GetJobHistory"] = func() (proto.Message, error) {
		return &apiv1.GetJobHistoryResponse{Items: []*apiv1.JobVersion{{Current: true, Version: 3}}}, nil
	}
	cluster.answers["PlanJob"] = func() (proto.Message, error) { return &apiv1.PlanJobResponse{Action: "update", Version: 4}, nil }
	page := web.New(web.Config{Cluster: cluster}).Handler()
	for path, want := range map[string]string{"/do/update-job?job=x": "3", "/do/rollback-job?job=x": "3", "/do/update-job?job=x&seen=3&plan=1&text=%7B%7D": "4"} {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		if to, form, _ := strings.Cut(path, "?"); strings.Contains(form, "plan=") {
			request = httptest.NewRequest(http.MethodPost, to, strings.NewReader(form))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		if page.ServeHTTP(w, request); !strings.Contains(w.Body.String(), `name="seen" value="`+want+`"`) {
			t.Errorf("%s is shown without version %s: %s", path, want, w.Body)
		}
	}
}

// onlyNow is what a view has only of the present: what one may do, commands, what has ended; and the address of a moment.
var onlyNow = regexp.MustCompile(`<p class="(actions|command)">.*?</p>|<p class="soft">What one may do next:</p>|<a href="[^"]*">(those that have ended too|what had happened before)</a>|\?at=\d+`)

// TestThePastIsAsItWas: what each list shows of a moment that has passed is what it showed then, whatever has come, changed
// and gone since, also when the watch broke and told its state anew.
func TestThePastIsAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := large(3, 5)
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		handler := page.Handler()
		lists := []string{"/", "/agents", "/frameworks", "/tasks", "/offers", "/roles"}
		shown := func(path string, at int64) string {
			if at > 0 {
				path += fmt.Sprint("?at=", at)
			}
			answer := ask(handler, http.MethodGet, path)
			_, main, _ := strings.Cut(answer.Body.String(), "<section")
			main, _, _ = strings.Cut(main, "</main>")
			return onlyNow.ReplaceAllString(main, "")
		}
		saved := map[int64]map[string]string{}
		save := func() {
			synctest.Wait()
			now := time.Now().Unix()
			saved[now] = map[string]string{}
			for _, path := range lists {
				saved[now][path] = shown(path, 0)
			}
			<-time.After(10 * time.Second)
		}
		task := func(i, agent int) *apiv1.Change {
			return &apiv1.Change{View: &apiv1.Change_Task{Task: someTask(i, agent)}}
		}
		shown("/", 0)
		<-time.After(10 * time.Second)
		save()
		cluster.changed <- task(7, 2)
		cluster.changed <- &apiv1.Change{Removed: "task/framework-0/task-0"}
		save()
		moved := task(1, 2)
		moved.GetTask().State = "KILLING"
		cluster.changed <- moved
		cluster.changed <- &apiv1.Change{Removed: "agent/agent-2"}
		save()
		cluster.state = append(large(2, 4).state, task(9, 0))
		cluster.changed <- nil
		<-time.After(time.Minute)
		cluster.changed <- &apiv1.Change{Removed: "task/framework-1/task-1"}
		synctest.Wait()
		distinct := map[string]bool{}
		for at, views := range saved {
			for path, then := range views {
				if path == "/tasks" {
					distinct[then] = true
				}
				if now := shown(path, at); now != then {
					t.Errorf("%s was\n%s\nand is now said to have been\n%s", path, then, now)
				}
			}
		}
		if len(distinct) != 3 {
			t.Errorf("the moments that were saved had %d different lists of tasks", len(distinct))
		}
	})
}

// TestEachSecondThatIsOverCanBeDraggedTo: also the one that has just begun, in which something may have happened since. Only
// the end of the track is now, and what has yet to come is not shown as if it were past.
func TestEachSecondThatIsOverCanBeDraggedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := web.New(web.Config{Cluster: large(3, 5)})
		defer page.End()
		handler := page.Handler()
		ask(handler, http.MethodGet, "/tasks")
		<-time.After(10*time.Second + time.Millisecond)
		begun := time.Now().Unix()
		if body := ask(handler, http.MethodGet, "/tasks").Body.String(); !strings.Contains(body, fmt.Sprintf(`max="%d" value="%[1]d"`, begun+1)) {
			t.Errorf("the track does not end behind %d: %s", begun, body)
		}
		if body := ask(handler, http.MethodGet, fmt.Sprint("/tasks?at=", begun)).Body.String(); !strings.Contains(body, "as it was at") {
			t.Errorf("the second %d is shown as %s", begun, body)
		}
		answer := ask(handler, http.MethodGet, fmt.Sprint("/tasks?q=x&at=", begun+1))
		if to := answer.Header().Get("Location"); answer.Code != http.StatusSeeOther || to != "/tasks?q=x" {
			t.Errorf("the second that comes next is answered with %d and leads to %q", answer.Code, to)
		}
	})
}

// TestAPageThatFailsForNowGoesOnByItself: whoever has it open is shown the view when the cluster answers again.
func TestAPageThatFailsForNowGoesOnByItself(t *testing.T) {
	cluster := answering("x")
	page := web.New(web.Config{Cluster: cluster})
	defer page.End()
	for kind, goesOn := range map[api.Kind]bool{api.Unavailable: true, api.Limit: true, api.Denied: false, api.NotFound: false} { // order: irrelevant because each is asked for itself
		cluster.answers["ListMasters"] = func() (proto.Message, error) { return nil, api.E("fake", kind, "", errors.New("not now")) }
		body := ask(page.Handler(), http.MethodGet, "/masters").Body.String()
		if strings.Contains(body, `data-events="/events?at=%2Fmasters"`) != goesOn || !strings.Contains(body, "not now") {
			t.Errorf("%s: that it goes on should be %v: %s", kind, goesOn, body)
		}
	}
}
