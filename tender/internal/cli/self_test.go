package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/internal/testing/program"
)

// shipEnv makes this test binary the program of a framework.
const shipEnv = "TENDER_TEST_SHIP"

// shipped runs this binary as scheduler or executor, if it was started as one.
func shipped() (ran bool) {
	masters := os.Getenv(shipEnv)
	if masters == "" && !executor.Active() {
		return false
	}
	err := executor.Main(context.Background(), answerWhere, func(ctx context.Context) error {
		return shipSelf(ctx, strings.Split(masters, ","))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// answerWhere is the executor's part, for tasks without data.
func answerWhere(ctx context.Context, task *executor.Task) error {
	if len(task.Data) > 0 {
		return runLines(ctx, task)
	}
	self, err := os.Executable()
	task.SetResult([]byte(self))
	return err
}

// shipSelf is the scheduler. Its file is deleted before anybody asks for it.
func shipSelf(ctx context.Context, masters []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Remove(self); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	return framework.Run(ctx, framework.Config{Name: "shipped", Masters: masters, TeardownAtEnd: true}, &shipper{end: end})
}

type shipper struct {
	client *framework.Client
	tasks  int
	ended  int
	end    context.CancelFunc
}

func (s *shipper) Subscribed(_ context.Context, client *framework.Client) error {
	s.client = client
	return nil
}

func (s *shipper) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if s.tasks > 0 {
		return nil
	}
	self, err := s.client.Self("where")
	if err != nil {
		panic(err)
	}
	var tasks []api.Task
	for range 2 {
		s.tasks++
		tasks = append(tasks, api.Task{ID: api.TaskID(fmt.Sprintf("where-%d", s.tasks)), Resources: api.Scalars(0.1, 32), Executor: self})
	}
	return []api.Answer{api.Launch(offers[0], tasks...)}
}

func (s *shipper) Update(_ context.Context, status api.Status) error {
	if status.State.Terminal() {
		fmt.Println(status.Task, status.State, status.Message, string(status.Data))
		if s.ended++; s.ended == s.tasks {
			s.end()
		}
	}
	return nil
}

// TestSelfIsShipped: a framework's binary runs on an agent that does not have its file.
func TestSelfIsShipped(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	self := filepath.Join(t.TempDir(), "program")
	if err := program.Copy(self); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self)
	command.Env = []string{shipEnv + "=" + strings.TrimPrefix(d.env[0], "TENDER_MASTER=")}
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "FINISHED"); n != 2 {
		t.Errorf("%d tasks finished:\n%s", n, out)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "/executor") || !strings.Contains(line, d.dir) {
			t.Errorf("it ran from elsewhere: %s", line)
		}
	}
}

// runLines is the executor for tasks with data: lines of shell, with the task's secret PASSWORD. Their output is the
// task's result.
func runLines(ctx context.Context, task *executor.Task) error {
	if err := task.MakeSandbox(); err != nil {
		return err
	}
	lines := exec.CommandContext(ctx, "/bin/sh", "-c", string(task.Data))
	lines.Dir = task.Sandbox
	if password, given := task.Secret("PASSWORD"); given {
		lines.Env = append(os.Environ(), "PASSWORD="+string(password))
	}
	said, err := lines.CombinedOutput()
	task.SetResult(said)
	return err
}
