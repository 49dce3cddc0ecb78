package frameworktest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// failing is the environment variable that names the story that is to fail; see TestFailures.
const failing = "FRAMEWORKTEST_FAILING"

// clumsy launches its tasks from the first offers, and does in Update what its story wants.
type clumsy struct {
	tasks  []api.Task
	update func(status api.Status)
}

func (s *clumsy) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	for i, task := range s.tasks {
		task.Resources, task.Command = api.Scalars(0.5, 64), &api.Command{Shell: "sleep 10"}
		if i < len(offers) {
			answers = append(answers, api.Launch(offers[i], task))
		}
	}
	if len(answers) == len(s.tasks) {
		s.tasks = nil
	}
	return answers
}

func (s *clumsy) Update(_ context.Context, status api.Status) error {
	if s.update != nil {
		s.update(status)
	}
	return nil
}

// stories are stories that fail, each in its own way.
var stories = map[string]func(c *frameworktest.Handle){
	// It waits for something that never comes, and does not watch its context.
	"blocked": func(c *frameworktest.Handle) {
		never := make(chan struct{})
		f := c.Start(framework.Config{Name: "blocked"}, &clumsy{tasks: []api.Task{{ID: "t"}}, update: func(api.Status) { <-never }})
		f.AwaitState("t", api.TaskFinished)
	},
	// It locks a mutex twice, which stops the clock.
	"locked": func(c *frameworktest.Handle) {
		var mu sync.Mutex
		f := c.Start(framework.Config{Name: "locked"}, &clumsy{tasks: []api.Task{{ID: "t"}}, update: func(api.Status) { mu.Lock() }})
		f.AwaitState("t", api.TaskFinished)
	},
	// It launches two tasks with the same ID on two agents.
	"twice": func(c *frameworktest.Handle) {
		c.Start(framework.Config{Name: "twice"}, &clumsy{tasks: []api.Task{{ID: "same"}, {ID: "same"}}})
		c.Advance(time.Minute)
	},
	// It fails early, and would go on for long.
	"early": func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "early"}, &clumsy{tasks: []api.Task{{ID: "t"}}})
		f.AwaitState("t", api.TaskRunning)
		f.ExpectCount(7, api.TaskRunning)
		c.Advance(10 * time.Minute)
	},
}

// TestFailing is the story that fails, when TestFailures runs it.
func TestFailing(t *testing.T) {
	story := stories[os.Getenv(failing)]
	if story == nil {
		t.Skip("TestFailures runs it")
	}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, story)
}

// tell runs the story in a process of its own, and returns its output, until that contains enough.
func tell(t *testing.T, story, enough string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	command := exec.CommandContext(ctx, program, "-test.run=^TestFailing$")
	command.Env = append(os.Environ(), failing+"="+story)
	out := &until{enough: enough, cancel: cancel}
	command.Stdout, command.Stderr = out, out
	if command.Run() == nil {
		t.Errorf("the story %q does not fail", story)
	}
	return out.text.String()
}

// until ends a process when its output contains the text enough.
type until struct {
	text   strings.Builder
	enough string
	cancel func()
}

func (u *until) Write(b []byte) (int, error) {
	u.text.Write(b)
	if u.enough != "" && strings.Contains(u.text.String(), u.enough) {
		u.cancel()
	}
	return len(b), nil
}

// inOrder checks that the text contains all the words, one after the other.
func inOrder(t *testing.T, text string, words ...string) {
	t.Helper()
	rest := text
	for _, word := range words {
		_, after, found := strings.Cut(rest, word)
		if !found {
			t.Fatalf("it does not say %q in its place:\n%s", word, text)
		}
		rest = after
	}
}

// TestFailures: the output of a story that fails begins with what its author did wrong.
func TestFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Run("a scheduler that blocks is named, with where it waits", func(t *testing.T) {
		inOrder(t, tell(t, "blocked", ""), "waited 10m0s for t to be FINISHED", "the scheduler of blocked is in its method Update since 00:00:00",
			"[chan receive", "failure_test.go", "the context of blocked has ended 10m0s ago")
	})
	t.Run("also one that stops the clock", func(t *testing.T) {
		inOrder(t, tell(t, "locked", "failure_test.go"), "the scheduler of locked has been in its method Update", "sync.Mutex.Lock", "failure_test.go")
	})
	t.Run("an ID that is used twice comes before all that follows from it", func(t *testing.T) {
		text := tell(t, "twice", "")
		inOrder(t, text, "a mistake of the scheduler: a task's ID is used twice", "framework-1/same is launched on agent-", "each attempt needs an ID of its own")
		if strings.Contains(text, "a promise is broken") {
			t.Errorf("it blames the cluster:\n%s", text)
		}
	})
	t.Run("the last lines are those before the failure", func(t *testing.T) {
		text := tell(t, "early", "")
		inOrder(t, text, "1 are; all: 1 RUNNING", "the last lines of the cluster's logs before the failure", "task launched")
		_, lines, _ := strings.Cut(text, "before the failure:")
		for _, late := range []string{"00:10:", "leaving", "master has ended"} {
			if strings.Contains(lines, late) {
				t.Errorf("the lines hold %q:\n%s", late, lines)
			}
		}
	})
}
