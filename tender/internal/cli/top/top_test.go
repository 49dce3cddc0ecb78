package top

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func resources(cpus, mem float64) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{"cpus": structpb.NewNumberValue(cpus), "mem": structpb.NewNumberValue(mem)}}
}

func anAgent(i int, used float64) *apiv1.Change {
	return &apiv1.Change{View: &apiv1.Change_Agent{Agent: &apiv1.AgentView{
		Id: fmt.Sprintf("agent-%d", i), Hostname: fmt.Sprintf("node-%d.example.org", i), State: "RUNNING", Since: timestamppb.New(now.Add(-time.Duration(i) * time.Minute)),
		Tasks: int32(used), Total: resources(8, 16384), Allocated: resources(used, 1024*used), Free: resources(8-used, 16384-1024*used),
	}}}
}

func aTask(i, agent int, state string) *apiv1.Change {
	return &apiv1.Change{View: &apiv1.Change_Task{Task: &apiv1.TaskView{
		Id: fmt.Sprintf("web.%d", i), FrameworkId: fmt.Sprintf("framework-%d", 1+i%7), AgentId: fmt.Sprintf("agent-%d", agent), State: state,
		Since: timestamppb.New(now.Add(-time.Duration(i) * time.Second)), Resources: resources(0.5, 256),
	}}}
}

// state is a small cluster.
func smallCluster() *apiv1.WatchResponse {
	news := &apiv1.WatchResponse{Complete: true}
	for i := 1; i <= 12; i++ {
		news.Items = append(news.Items, anAgent(i, float64(i%4)), aTask(i, i, "RUNNING"))
	}
	news.Items[2].GetAgent().State = "DISCONNECTED"
	news.Items = append(news.Items,
		&apiv1.Change{View: &apiv1.Change_Master{Master: &apiv1.MasterView{Id: "m1", State: "leader"}}},
		&apiv1.Change{View: &apiv1.Change_Role{Role: &apiv1.RoleView{Role: "web", Weight: 2, Frameworks: 1, DominantShare: 0.25}}},
		&apiv1.Change{View: &apiv1.Change_Framework{Framework: &apiv1.FrameworkView{Id: "framework-1", Name: "web", State: "active", Roles: []string{"web"}, Tasks: 12}}},
	)
	return news
}

// screen drives a model as a terminal does, without one.
type screen struct {
	*model
	tell func(*apiv1.WatchResponse)
}

func newScreen(t testing.TB, config Config) *screen {
	f := newFeed()
	if config.Now = func() time.Time { return now }; config.Kind.Name == "" {
		config.Kind = nouns.Agents
	}
	if config.Look == nil {
		config.Look = func(_ context.Context, args ...string) string {
			return "the answer to " + strings.Join(args, " ") + "\nis \x1b[31mred\n"
		}
	}
	return &screen{newModel(t.Context(), config, f), f.copy.Take}
}

// press presses keys, written as bubbletea calls them, and runs the commands that follow.
func (s *screen) press(keys ...string) {
	named := map[string]tea.Key{"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "down": {Code: tea.KeyDown},
		"right": {Code: tea.KeyRight}, "end": {Code: tea.KeyEnd}, "backspace": {Code: tea.KeyBackspace}}
	for _, key := range keys {
		pressed, is := named[key]
		if !is {
			r, _ := utf8.DecodeRuneInString(key)
			pressed = tea.Key{Code: r, Text: key}
		}
		if _, command := s.Update(tea.KeyPressMsg(pressed)); command != nil {
			s.Update(command())
		}
	}
}

// TestScreens drives the tables and compares each screen with testdata/screens.txt.
func TestScreens(t *testing.T) {
	s := newScreen(t, Config{})
	var text strings.Builder
	shown := func(what string) {
		content := s.View().Content
		for _, style := range []string{reverse, plain} {
			content = strings.ReplaceAll(content, style, "")
		}
		lines := strings.Split(content, "\n")
		if len(lines) > s.height || slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > s.width }) {
			t.Errorf("%s: the screen of %d x %d is left:\n%s", what, s.width, s.height, content)
		}
		for i, line := range lines {
			lines[i] = strings.TrimRight("  | "+line, " ")
		}
		fmt.Fprintf(&text, "%s\n%s\n\n", what, strings.Join(lines, "\n"))
	}
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 12})
	s.Update(frame{})
	shown("before anything was heard")
	s.tell(smallCluster())
	s.feed.set(func(st *state) {
		st.jobs = map[string]*apiv1.JobStatus{"site": {Name: "site", Type: "service", Phase: "RUNNING", FrameworkId: "framework-1"}}
	})
	s.Update(frame{})
	shown("agents")
	s.press("down", "down", "s", "s")
	shown("sorted by state, with the third one chosen still")
	s.press("o")
	shown("the other way round")
	s.press("/", "n", "o", "D", "e", "-", "1", "2", "backspace")
	shown("a search while it is typed")
	s.press("enter", "end")
	shown("the last one that is found")
	s.tell(&apiv1.WatchResponse{Complete: true, Items: []*apiv1.Change{{Removed: "agent/agent-1"}, anAgent(11, 4), anAgent(100, 0)}})
	s.Update(frame{})
	shown("it is no more, others have changed")
	s.press("esc", "right", "right")
	shown("columns scrolled")
	s.press("tab", "tab", "tab")
	shown("jobs")
	s.press("x")
	shown("what a job waits for")
	s.press("esc", "5", "end", "l")
	shown("the output of the last task")
	s.press("esc", "enter")
	shown("a description")
	s.press("esc", "2", "l", "v")
	shown("a role has no output, but events")
	s.press("esc", "?")
	shown("help")
	s.press("esc", "5")
	s.feed.waiting(errors.New("no master answers"))
	s.Update(frame{})
	s.Update(tea.WindowSizeMsg{Width: 24, Height: 7})
	shown("no master answers, on a small screen")
	s.Update(tea.WindowSizeMsg{Width: 1, Height: 1})
	shown("a tiny one")
	s.tell(&apiv1.WatchResponse{Missed: "the leader was killed", Items: []*apiv1.Change{aTask(3, 3, "RUNNING")}, Complete: true})
	s.Update(tea.WindowSizeMsg{Width: 80, Height: 8})
	s.feed.set(func(st *state) { st.waits = nil })
	s.Update(frame{})
	shown("the state anew")

	const file = "testdata/screens.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != text.String() {
		t.Errorf("%v; %s differs, go test -rewrite accepts this:\n%s", err, file, text.String())
	}
}

// TestTheOrderIsKept compares the order that is kept change by change with one that is made anew, for all ways to sort
// and to search.
func TestTheOrderIsKept(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	s := newScreen(t, Config{Kind: nouns.Tasks})
	states := []string{"STAGING", "RUNNING", "KILLING"}
	for range 300 {
		news := &apiv1.WatchResponse{Complete: true}
		for range random.IntN(20) {
			change := aTask(random.IntN(60), random.IntN(5), states[random.IntN(3)])
			if random.IntN(3) == 0 {
				change = &apiv1.Change{Removed: "task/" + change.GetTask().GetFrameworkId() + "/" + change.GetTask().GetId()}
			}
			news.Items = append(news.Items, change)
		}
		s.tell(news)
		s.Update(frame{})
		before := ""
		if table := s.table(); table.chosen != "" {
			before = table.chosen
		}
		kept := slices.Clone(s.table().order)
		s.table().again()
		if !slices.Equal(kept, s.table().order) {
			t.Fatalf("by %s, down %t, with %q: the order is not that of all rows", s.table().column, s.table().down, s.table().filter)
		}
		if s.table().chosen != before {
			t.Fatalf("%q was chosen, and now %q is", before, s.table().chosen)
		}
		key := []string{"s", "o", "down", "/", "", ""}[random.IntN(6)]
		switch key {
		case "":
		case "/":
			s.press("esc", "/", []string{"2", "run", "agent-3"}[random.IntN(3)], "enter")
		default:
			s.press(key)
		}
	}
}

// BenchmarkFrame measures what a frame costs with 10,000 agents and 100,000 tasks, of which some thousand change from
// one frame to the next. Two frames a second may take a tenth of a core.
func BenchmarkFrame(b *testing.B) {
	for _, sorted := range []string{"TASK", "STATE", "SINCE"} {
		b.Run(sorted, func(b *testing.B) { benchmarkFrame(b, Config{Kind: nouns.Tasks, Sort: sorted}) })
	}
	b.Run("search", func(b *testing.B) { benchmarkFrame(b, Config{Kind: nouns.Tasks, Filter: "agent-77"}) })
	b.Run("agents", func(b *testing.B) { benchmarkFrame(b, Config{Kind: nouns.Agents, Sort: "FREE"}) })
}

func benchmarkFrame(b *testing.B, config Config) {
	const agents, tasks, changes = 10_000, 100_000, 2_000
	s := newScreen(b, config)
	news := &apiv1.WatchResponse{Complete: true}
	for i := range tasks {
		news.Items = append(news.Items, aTask(i, i%agents, "RUNNING"))
	}
	for i := range agents {
		news.Items = append(news.Items, anAgent(i, 1))
	}
	s.tell(news)
	s.Update(tea.WindowSizeMsg{Width: 120, Height: 50})
	s.Update(frame{})
	s.press("down")
	next := tasks
	var frames time.Duration
	for b.Loop() {
		news := &apiv1.WatchResponse{Complete: true}
		for i := range changes / 2 { // as many begin as end
			ended := aTask(next-tasks, 0, "").GetTask()
			news.Items = append(news.Items, &apiv1.Change{Removed: "task/" + ended.GetFrameworkId() + "/" + ended.GetId()}, aTask(next, next%agents, "RUNNING"))
			if i%4 == 0 {
				news.Items = append(news.Items, anAgent(next%agents, float64(next%8)))
			}
			next++
		}
		s.tell(news)
		began := spent(b)
		s.Update(frame{})
		_ = s.View()
		frames += spent(b) - began
	}
	b.ReportMetric(float64(frames)/float64(b.N)/float64(time.Millisecond), "ms/frame")
	b.ReportMetric(100*2*frames.Seconds()/float64(b.N), "%core")
}

// spent returns how much time of the machine's cores this process has used.
func spent(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
