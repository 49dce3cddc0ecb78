package web_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

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
