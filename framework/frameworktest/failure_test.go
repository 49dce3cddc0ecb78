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

// failing, in the environment, names the story that is to fail; see TestFailures.
const failing = "FRAMEWORKTEST_FAILING"

// clumsy launches its tasks with the first offer, and does in Update what its story says.
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

// stories fail, each in its own way.
var stories = map[string]func(c *frameworktest.Handle){
	// It waits for something that never comes, and does not heed its context.
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
	// It launches one ID on two agents.
	"twice": func(c *frameworktest.Handle) {
		c.Start(framework.Config{Name: "twice"}, &clumsy{tasks: []api.Task{{ID: "same"}, {ID: "same"}}})
		c.Advance(time.Minute)
	},
	// It is wrong early, and goes on for long.
	"early": func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "early"}, &clumsy{tasks: []api.Task{{ID: "t"}}})
		f.AwaitState("t", api.TaskRunning)
		f.ExpectCount(7, api.TaskRunning)
		c.Advance(time.Hour)
	},
}

// TestFailing is one story that fails, for TestFailures.
func TestFailing(t *testing.T) {
	story := stories[os.Getenv(failing)]
	if story == nil {
		t.Skip("TestFailures runs it")
	}
	frameworktest.Run(t, frameworktest.Cluster{Agents: 2}, story)
}

// tell has the story fail in a process of its own, and returns what it says until it says enough.
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

// until ends a process that has said enough.
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

// inOrder checks that the text says all of it, one after the other.
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

// TestFailures: a story that fails says first what was the author's doing.
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
		for _, late := range []string{"01:00:", "leaving", "master has ended"} {
			if strings.Contains(lines, late) {
				t.Errorf("the lines hold %q:\n%s", late, lines)
			}
		}
	})
}
