package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/testing/hang"
)

// hung fails a test whose wait did not end, with the state of its clusters.
func hung(t *testing.T, what string) {
	t.Helper()
	t.Fatalf("%s: has not come for %v\n%s", what, hang.After, statesOf(t))
}

// statesOf returns the state of every cluster of the test.
func statesOf(t *testing.T) string {
	var text strings.Builder
	for _, masters := range clustersOf(t) {
		fmt.Fprintf(&text, "--- the cluster of %s\n", masters)
		for _, args := range [][]string{
			{"get", "masters"}, {"get", "agents"}, {"get", "frameworks", "-o", "wide"}, {"get", "tasks", "--all"}, {"get", "offers"},
		} {
			text.WriteString(ask(masters, args...))
		}
		var list listed
		if err := json.Unmarshal([]byte(answerTo(masters, "get", "frameworks", "-o", "json")), &list); err == nil {
			for _, framework := range list.Items {
				text.WriteString(ask(masters, "explain", framework.ID))
			}
		}
	}
	return text.String()
}

// clustersOf returns the masters that the test's processes were given.
func clustersOf(t *testing.T) (found []string) {
	running.Lock()
	defer running.Unlock()
	for _, p := range running.of[t] {
		for _, variable := range p.cmd.Env[len(os.Environ()):] {
			if masters, is := strings.CutPrefix(variable, "TENDER_MASTER="); is && !slices.Contains(found, masters) {
				found = append(found, masters)
			}
		}
	}
	return found
}

func ask(masters string, args ...string) string {
	return fmt.Sprintf("$ tender %s\n%s", strings.Join(args, " "), answerTo(masters, args...))
}

// answerTo returns the output of a command, or why there is none.
func answerTo(masters string, args ...string) string {
	name, err := binary()
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), "TENDER_MASTER="+masters)
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v\n", out, err)
	}
	return string(out)
}

// A wait that does not end shows the state of the cluster.
func TestAHangTellsTheStateOfTheCluster(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	run := start(t, d.env, "run", "--name", "sleeper", "--", "sh", "-c", "echo up; exec sleep 1000")
	run.await("up")
	state := statesOf(t)
	for _, want := range []string{"$ tender get agents\nAGENT", "sleeper.0", "RUNNING", "$ tender explain "} {
		if !strings.Contains(state, want) {
			t.Errorf("no %q in:\n%s", want, state)
		}
	}
	for _, master := range d.Masters {
		if strings.HasSuffix(master.GRPC, ":5060") || strings.HasSuffix(master.HTTP, ":5050") {
			t.Errorf("a test's master is where everybody looks: %+v", master)
		}
	}
}
