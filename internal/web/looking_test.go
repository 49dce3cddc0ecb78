package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/web"
)

// TestPatchesAskNothing: an open tab has a watch. Of who its person is and who leads it asks again when the watch tells of
// either, and else from time to time.
func TestPatchesAskNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := answering("quiet")
		cluster.state = nil
		asked := map[string]int{}
		for _, call := range []string{"WhoAmI", "GetCluster", "ListAgents"} {
			answer := cluster.answers[call]
			cluster.answers[call] = func() (proto.Message, error) {
				asked[call]++
				return answer()
			}
		}
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		reader, writer := newPipe()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		go page.Handler().ServeHTTP(writer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?at=/tasks", nil))
		lines := bufio.NewScanner(reader)
		lines.Buffer(nil, 1<<20)
		nextPatch(t, lines)
		for i := range 120 { // a minute
			cluster.changed <- &apiv1.Change{View: &apiv1.Change_Task{Task: &apiv1.TaskView{Id: fmt.Sprint("t", i), FrameworkId: "f1", State: "RUNNING"}}}
			nextPatch(t, lines)
		}
		if asked["WhoAmI"] > 15 || asked["GetCluster"] > 15 || asked["ListAgents"] > 0 {
			t.Errorf("for 120 patches it has asked %v", asked)
		}
		before := asked["GetCluster"]
		cluster.changed <- &apiv1.Change{Event: &apiv1.Event{Kind: "election", What: "won"}}
		cluster.changed <- &apiv1.Change{Removed: "task/f1/t1"}
		if nextPatch(t, lines); asked["GetCluster"] != before+1 {
			t.Errorf("after an election it asks %d times who leads", asked["GetCluster"]-before)
		}
		leave()
		for lines.Scan() && lines.Text() != "event: gone" { // so that nobody is held up by writing
		}
	})
}

// TestOnlyTheFirstLookWaitsForTheState: while the state of a large cluster is being read, a click is answered at once. What
// is asked of a moment of the past gets no patches, so it waits.
func TestOnlyTheFirstLookWaitsForTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := large(1, 1)
		cluster.takes = 2 * time.Second
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		looked := func(path string) (time.Duration, bool) {
			began := time.Now()
			body := ask(page.Handler(), http.MethodGet, path).Body.String()
			return time.Since(began), strings.Contains(body, "the state is being read")
		}
		if took, partly := looked("/"); took >= 300*time.Millisecond || !partly {
			t.Errorf("the first look takes %v, and says %v that the state is being read", took, partly)
		}
		for _, path := range []string{"/", "/tasks"} {
			if took, partly := looked(path); took != 0 || !partly {
				t.Errorf("%s takes %v while the state is being read, and says it: %v", path, took, partly)
			}
		}
		if took, partly := looked(fmt.Sprint("/tasks?at=", time.Now().Unix()-1)); took == 0 || partly {
			t.Errorf("a moment of the past takes %v, and is shown in part: %v", took, partly)
		}
		done := httptest.NewRequest(http.MethodPost, "/do/drain", strings.NewReader("agent=agent-0"))
		done.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if page.Handler().ServeHTTP(w, done); !strings.Contains(w.Body.String(), "1 agent") {
			t.Errorf("after an action the page says %s", w.Body)
		}
	})
}

// TestTheStateIsReadBeforeTheFirstLook: who serves the page for one person has it read the state at once. Whoever looks
// meanwhile is shown what has come so far, and waits for nothing else either.
func TestTheStateIsReadBeforeTheFirstLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := large(1, 1)
		cluster.takes = 2 * time.Second
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		page.Begin(t.Context())
		for _, partly := range []bool{true, false} {
			<-time.After(time.Second + time.Millisecond)
			began := time.Now()
			body := ask(page.Handler(), http.MethodGet, "/").Body.String()
			if took := time.Since(began); took > 0 || strings.Contains(body, "the state is being read") != partly {
				t.Errorf("a look takes %v, while the state is being read: %v", took, partly)
			}
			if _, asked := cluster.called.Load("/tender.v1.WatchService/ListEvents"); asked == partly {
				t.Errorf("the history is asked: %v, while the state is being read: %v", asked, partly)
			}
		}
	})
}

// TestSharesOfAnEmptyCluster: where nobody holds anything there is a sentence, and no empty picture.
func TestSharesOfAnEmptyCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := web.New(web.Config{Cluster: large(1, 0)})
		defer page.End()
		page.Begin(t.Context())
		<-time.After(time.Minute)
		if body := ask(page.Handler(), http.MethodGet, "/shares").Body.String(); !strings.Contains(body, "Nobody has held any cpus in this time.") || strings.Contains(body, `class="chart"`) {
			t.Errorf("it says %s", body)
		}
	})
}

// TestNotYetIsTriedAgain: a task that its agent has yet to report is not one that is not there.
func TestNotYetIsTriedAgain(t *testing.T) {
	cluster := answering("x")
	cluster.answers["GetTask"] = func() (proto.Message, error) {
		return nil, api.E("task", api.Unavailable, "f1/t1", errors.New("not yet known: 1 agent has not reported"))
	}
	page := web.New(web.Config{Cluster: cluster})
	defer page.End()
	answer := ask(page.Handler(), http.MethodGet, "/tasks/f1/t1")
	if body := answer.Body.String(); answer.Code != http.StatusServiceUnavailable || !strings.Contains(body, "not yet known: 1 agent") || !strings.Contains(body, `data-events="/events?at=%2Ftasks`) {
		t.Errorf("it is answered with %d %s", answer.Code, body)
	}
}

// TestWhatHasFailedIsSeen: the first view says which tasks have failed lately, before and after it was opened, and asks the
// history for it once. Tasks that have ended are not counted as if they were on their way.
func TestWhatHasFailedIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newHistorian()
		cluster.said("task", "framework-1/old", "failed", "exit code 1", "agent agent-1")
		cluster.said("task", "framework-1/killed", "killed", "somebody asked for it", "person ann")
		for i, state := range []string{"RUNNING", "STAGING", "FAILED", "KILLED"} {
			cluster.happen("", &apiv1.Change{View: &apiv1.Change_Task{Task: &apiv1.TaskView{Id: fmt.Sprint("t", i), FrameworkId: "framework-1", State: state}}})
		}
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		shows := func(has string, is bool) {
			t.Helper()
			if body := ask(page.Handler(), http.MethodGet, "/").Body.String(); strings.Contains(body, has) != is {
				t.Errorf("the first view says %s: %v: %s", has, !is, body)
			}
		}
		shows("framework-1/old", true)
		shows("framework-1/killed", false)
		shows("1 RUNNING, 1 STAGING, 2 ended and not yet acknowledged", true)
		cluster.said("task", "framework-1/silent", "failed", "the watch has not told of it", "agent agent-1")
		shows("framework-1/silent", false)
		cluster.changed <- &apiv1.Change{Event: &apiv1.Event{At: timestamppb.Now(), Kind: "task", Name: "framework-1/new", What: "failed", Notable: true}}
		synctest.Wait()
		shows("framework-1/new", true)
	})
}

// TestATabThatComesBackIsSentAll: two tabs share a watch. One that has slept is sent all that it has when it asks again, and
// not only what changes then.
func TestATabThatComesBackIsSentAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := answering("quiet")
		cluster.state = nil
		page := web.New(web.Config{Cluster: cluster})
		defer page.End()
		open := func() (lines *bufio.Scanner, sleep func()) {
			reader, writer := newPipe()
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				page.Handler().ServeHTTP(writer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?at=/tasks", nil))
				writer.Close()
			}()
			lines = bufio.NewScanner(reader)
			lines.Buffer(nil, 1<<20)
			return lines, func() {
				for leave(); lines.Scan(); { // until it has ended
					continue
				}
			}
		}
		one, sleep := open()
		other, end := open()
		defer end()
		nextPatch(t, one)
		nextPatch(t, other)
		sleep()
		cluster.changed <- &apiv1.Change{View: &apiv1.Change_Task{Task: &apiv1.TaskView{Id: "t1", FrameworkId: "f1", State: "RUNNING"}}}
		if next := nextPatch(t, other); !strings.Contains(next["list"], `href="/tasks/f1/t1"`) {
			t.Errorf("the tab that has not slept is sent %v", next)
		}
		one, sleep = open()
		defer sleep()
		if next := nextPatch(t, one); len(next) != 3 || !strings.Contains(next["list"], `href="/tasks/f1/t1"`) {
			t.Errorf("the tab that has slept is sent %v", next)
		}
		if cluster.watches != 1 {
			t.Errorf("two tabs have %d watches", cluster.watches)
		}
	})
}
