package web_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/web"
)

// TestAHostThatHasComeBack: the page of a host is that of the agent which is there now, not of one that is gone.
func TestAHostThatHasComeBack(t *testing.T) {
	cluster := answering("x")
	cluster.answers["ListAgents"] = func() (proto.Message, error) {
		return &apiv1.ListAgentsResponse{Items: []*apiv1.AgentView{
			{Id: "agent-3", Hostname: "a2", State: "TOMBSTONE", Marks: []string{"gone"}}, {Id: "agent-6", Hostname: "a2", State: "RUNNING"},
		}}, nil
	}
	page := web.New(web.Config{Cluster: cluster})
	defer page.End()
	if body := ask(page.Handler(), http.MethodGet, "/agents/a2").Body.String(); !strings.Contains(body, "agent-6") || strings.Contains(body, "agent-3") {
		t.Errorf("it shows %s", body)
	}
}
