package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deployed are the files for Prometheus and Grafana.
var deployed = []string{"../../../deploy/prometheus-rules.yaml", "../../../deploy/grafana-dashboard.json"}

var metricName = regexp.MustCompile(`\btender_[a-z_]+`)

// TestAlertsAndDashboardNameWhatIsServed: each metric of the alert rules and of the dashboard is served by a running
// cluster that has certificates, folders and an agent. docs/operate.md has each metric that is served with its meaning and
// what to do, and each alert. Agents say what each framework uses, and each task if they are asked.
func TestAlertsAndDashboardNameWhatIsServed(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agents", "1", "--masters", "3")
	for _, args := range [][]string{{"run", "--", "true"}, {"run", "--detach", "--", "sleep", "1000"}} {
		if _, stderr, code := tender(t, d.env, args...); code != 0 {
			t.Fatalf("tender %v: exit code %d: %s", args, code, stderr)
		}
	}
	all := ""
	until(t, "the leader to have looked at the other masters", func() bool {
		all = served(t, "http://"+d.Agents[0].HTTP+"/metrics")
		for _, master := range d.Masters {
			all += served(t, "http://"+master.HTTP+"/metrics")
		}
		return strings.Contains(all, "\ntender_master_ill{")
	})
	agent := "http://" + d.Agents[0].HTTP + "/metrics"
	until(t, "the agent to have measured what its task uses", func() bool {
		all += served(t, agent)
		return strings.Contains(all, "\ntender_agent_framework_used{framework=") && strings.Contains(served(t, agent+"?tasks=1"), "\ntender_agent_task_used{framework=")
	})
	manual := readText(t, "../../../docs/operate.md")
	for _, family := range regexp.MustCompile(`(?m)^# TYPE (tender_\S+)`).FindAllStringSubmatch(all, -1) {
		if !regexp.MustCompile(`(?m)^\|[^|]*\x60` + family[1] + `[\x60{][^|]*\|[^|]+\|[^|]+\|$`).MatchString(manual) {
			t.Errorf("docs/operate.md does not say what %s means and what to do", family[1])
		}
	}
	for _, alert := range regexp.MustCompile(`alert: (\S+)`).FindAllStringSubmatch(readText(t, deployed[0]), -1) {
		if !strings.Contains(manual, "\n| `"+alert[1]+"` |") {
			t.Errorf("docs/operate.md does not say what to do when %s fires", alert[1])
		}
	}
	for _, file := range deployed {
		names := metricName.FindAllString(readText(t, file), -1)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if !strings.Contains(all, "\n"+name+"{") && !strings.Contains(all, "\n"+name+" ") {
				t.Errorf("%s names %s, which nobody serves", file, name)
			}
		}
	}
}

// TestDashboardIsJSON: Grafana could read it; each panel asks something.
func TestDashboardIsJSON(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readText(t, deployed[1])), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		if panel.Title == "" || len(panel.Targets) == 0 || panel.Targets[0].Expr == "" {
			t.Errorf("panel %q asks nothing", panel.Title)
		}
	}
}

// TestAlertRules: Prometheus's own tool finds nothing wrong with the rules.
func TestAlertRules(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian has it in the package prometheus)")
	}
	if out, err := exec.Command(tool, "check", "rules", deployed[0]).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
