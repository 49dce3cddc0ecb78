package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// TestUsageInMetrics: what each framework uses is there, in base units; what each task uses only for those who ask; and
// beyond a hundred frameworks they are summed.
func TestUsageInMetrics(t *testing.T) {
	a := build(&Config{})
	served := func(query string) string {
		answer := httptest.NewRecorder()
		a.front.serveMetrics(answer, httptest.NewRequest(http.MethodGet, "/metrics"+query, nil))
		return answer.Body.String()
	}
	if text := served(""); strings.Contains(text, "_used") || !strings.Contains(text, "\ntender_build_info{version=") {
		t.Errorf("before the first sample:\n%s", text)
	}
	a.samples.last.Store(&protocol.UsageReport{
		Executors: map[api.ExecutorRef]api.Usage{
			{Framework: "f1", Executor: "e1"}: {CPU: 1500, Mem: 64_000}, {Framework: "f1", Executor: "e2"}: {CPU: 250, Mem: 500}, {Framework: "f2", Executor: "e1"}: {},
		},
		Tasks: map[api.TaskRef]api.Usage{{Framework: "f1", Task: `a "task"` + "\n"}: {CPU: 1000, CPUs: 90 * time.Second, Mem: 1000}},
	})
	frameworks := `
# TYPE tender_agent_framework_used gauge
tender_agent_framework_used{framework="f1",resource="cpus"} 1.75
tender_agent_framework_used{framework="f1",resource="mem"} 6.7633152e+07
tender_agent_framework_used{framework="f2",resource="cpus"} 0
tender_agent_framework_used{framework="f2",resource="mem"} 0
`
	if text := served(""); !strings.HasSuffix(text, frameworks) {
		t.Errorf("not told of each framework:\n%s", text)
	}
	task := `tender_agent_task_used{framework="f1",task="a \"task\"\n",resource="cpus"} 1
tender_agent_task_used{framework="f1",task="a \"task\"\n",resource="mem"} 1.048576e+06
# HELP tender_agent_task_cpu_seconds_total Processor time that a task has used since its start.
# TYPE tender_agent_task_cpu_seconds_total counter
tender_agent_task_cpu_seconds_total{framework="f1",task="a \"task\"\n"} 90
`
	if text := served("?tasks=1"); !strings.HasSuffix(text, task) {
		t.Errorf("not told of each task:\n%s", text)
	}
	many := protocol.UsageReport{Executors: map[api.ExecutorRef]api.Usage{}}
	for i := range frameworksNamedMax + 3 {
		many.Executors[api.ExecutorRef{Framework: api.FrameworkID(fmt.Sprintf("f%03d", i))}] = api.Usage{CPU: 1000}
	}
	a.samples.last.Store(&many)
	text := served("")
	if lines := strings.Count(text, "\ntender_agent_framework_used{"); lines != 2*(frameworksNamedMax+1) || !strings.Contains(text, `{framework="(others)",resource="cpus"} 3`) {
		t.Errorf("%d lines:\n%s", lines, text)
	}
}
