// Package alerts runs the alert rules of deploy/prometheus-rules.yaml on the engine of Prometheus. It has tests only.
package alerts

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"go.yaml.in/yaml/v2"
)

// rule is an alert.
type rule struct {
	Alert, Expr string
	For         model.Duration
}

// story is what is scraped.
type story struct {
	series string
	every  time.Duration // between two scrapes, and two evaluations of the rules
}

const (
	// every is the time between two scrapes of a story that says nothing of it.
	every = 30 * time.Second
	// scrapes is how many there are in a story.
	scrapes = 360
)

// TestAlertsFire: each rule fires, after its time and not before, where the metrics are those of its trouble; and no rule
// fires where they are those of a cluster without any.
func TestAlertsFire(t *testing.T) {
	rules, stories := readRules(t), readStories(t)
	for _, r := range rules {
		story, told := stories[r.Alert]
		if !told {
			t.Errorf("%s has no story in testdata/troubles", r.Alert)
			continue
		}
		delete(stories, r.Alert)
		t.Run(r.Alert, func(t *testing.T) {
			began, fired := firing(t, load(t, story), r, story.every, scrapes)
			switch {
			case fired < 0:
				t.Errorf("it does not fire in its trouble")
			case fired-began < time.Duration(r.For):
				t.Errorf("it waits for %v and not for %v", fired-began, time.Duration(r.For))
			}
		})
	}
	healthy := stories["healthy"]
	delete(stories, "healthy")
	if len(stories) > 0 || healthy.series == "" {
		t.Errorf("stories of no rule, or none of a healthy cluster: %v", stories)
	}
	well := load(t, healthy)
	for _, r := range rules {
		if _, fired := firing(t, well, r, healthy.every, scrapes); fired >= 0 {
			t.Errorf("%s fires in a healthy cluster after %v", r.Alert, fired)
		}
	}
}

var engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, EnableAtModifier: true, Parser: parser.NewParser(parser.Options{})})

// firing evaluates a rule as Prometheus does: it returns since when the expression holds, and when that had been so for
// as long as the rule waits; negative: never.
func firing(t *testing.T, from storage.Queryable, r rule, step time.Duration, scrapes int) (began, fired time.Duration) {
	t.Helper()
	began = -1
	for at := time.Duration(0); at <= time.Duration(scrapes)*step; at += step {
		query, err := engine.NewInstantQuery(context.Background(), from, nil, r.Expr, time.Unix(0, 0).Add(at))
		if err != nil {
			t.Fatal(err)
		}
		result := query.Exec(context.Background())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", r.Expr, err)
		}
		holds := len(vector) > 0
		query.Close()
		switch {
		case !holds:
			began = -1
		case began < 0:
			began = at
		}
		if holds && at-began >= time.Duration(r.For) {
			return began, at
		}
	}
	return began, -1
}

func load(t *testing.T, s story) storage.Queryable {
	t.Helper()
	return promqltest.LoadedStorage(t, fmt.Sprintf("load %ds\n%s", int(s.every.Seconds()), s.series))
}

func readRules(t *testing.T) (rules []rule) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) < 10 {
		t.Fatalf("only %d rules were read", len(rules))
	}
	return rules
}

// readStories reads the series of each trouble: a line with the name of the alert, and the time between two scrapes if it
// is another one; then indented lines as promqltest has them.
func readStories(t *testing.T) map[string]story {
	t.Helper()
	text, err := os.ReadFile("testdata/troubles")
	if err != nil {
		t.Fatal(err)
	}
	stories, name := map[string]story{}, ""
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		case line[0] != ' ':
			words := strings.Fields(line)
			name, stories[words[0]] = words[0], story{every: every}
			if len(words) > 1 {
				step, err := time.ParseDuration(words[1])
				if err != nil {
					t.Fatal(err)
				}
				stories[name] = story{every: step}
			}
		default:
			s := stories[name]
			s.series += line
			stories[name] = s
		}
	}
	return stories
}

// TestStoriesNameWhatRulesAsk: a story that has a metric which no rule asks for is about another cluster than ours.
func TestStoriesNameWhatRulesAsk(t *testing.T) {
	asked := ""
	for _, r := range readRules(t) {
		asked += " " + r.Expr
	}
	for name, story := range readStories(t) {
		for line := range strings.Lines(story.series) {
			metric := strings.TrimSpace(line)
			if at := strings.IndexAny(metric, "{ "); at > 0 {
				metric = metric[:at]
			}
			if !strings.Contains(asked, metric) && !slices.Contains([]string{"up"}, metric) {
				t.Errorf("%s: no rule asks for %s", name, metric)
			}
		}
	}
}
