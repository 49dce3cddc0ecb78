package frameworktest

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
)

func TestPlayCommand(t *testing.T) {
	tests := []struct {
		command api.Command
		want    Play
	}{
		{api.Command{Argv: []string{"true"}}, Play{}},
		{api.Command{Argv: []string{"false"}}, Play{ExitCode: 1}},
		{api.Command{Argv: []string{"sleep", "2.5"}}, Play{Duration: 2500 * time.Millisecond}},
		{api.Command{Argv: []string{"sleep", "1h"}}, Play{Duration: time.Hour}},
		{api.Command{Shell: "sleep 1; sleep 2; exit 3; sleep 4"}, Play{Duration: 3 * time.Second, ExitCode: 3}},
		{api.Command{Shell: "false; echo all is well"}, Play{}},
		{api.Command{Shell: "sleep infinity; exit 1"}, Play{Forever: true}},
	}
	for _, test := range tests {
		if got := PlayCommand(api.Task{Command: &test.command}); got.ExitCode != test.want.ExitCode ||
			got.Duration != test.want.Duration || got.Forever != test.want.Forever {
			t.Errorf("%v: got %+v, want %+v", test.command, got, test.want)
		}
	}
}

// TestJournal: each oracle refuses what it must refuse, and nothing else.
func TestJournal(t *testing.T) {
	ref := api.TaskRef{Framework: "framework-1", Task: "t"}
	status := func(state api.TaskState) api.Status {
		return api.Status{Framework: ref.Framework, Task: ref.Task, State: state}
	}
	ask := func(j *journal) {
		offer := api.Offer{ID: "o", Framework: ref.Framework, Agent: "agent-1"}
		j.noteLaunches([]api.Offer{offer}, []api.Answer{api.Launch(offer, api.Task{ID: ref.Task})})
	}
	tell := func(j *journal, states ...api.TaskState) {
		for _, state := range states {
			j.noteStatus(status(state), nil, false)
		}
	}
	tests := []struct {
		name  string
		story func(j *journal)
		want  int // violations
	}{
		{"a good life", func(j *journal) {
			ask(j)
			tell(j, api.TaskStarting)
			j.noteStart("h1", ref, &Play{})
			tell(j, api.TaskRunning, api.TaskRunning)
			j.noteEnd("h1", ref)
			tell(j, api.TaskFinished, api.TaskFinished)
		}, 0},
		{"never told an end", func(j *journal) { ask(j); tell(j, api.TaskRunning) }, 1},
		{"starts twice", func(j *journal) {
			j.noteStart("h1", ref, &Play{})
			j.noteEnd("h1", ref)
			j.noteStart("h2", ref, &Play{})
			j.noteEnd("h2", ref)
			tell(j, api.TaskFinished)
		}, 1},
		{"starts after its end", func(j *journal) {
			tell(j, api.TaskKilled)
			j.noteStart("h1", ref, &Play{})
			j.noteEnd("h1", ref)
			j.excuseEnd(ref, "killed")
		}, 1},
		{"two ends", func(j *journal) { tell(j, api.TaskKilled, api.TaskGone) }, 1},
		{"back to the beginning", func(j *journal) { tell(j, api.TaskRunning, api.TaskStarting) }, 1},
		{"back from nowhere", func(j *journal) { tell(j, api.TaskRunning, api.TaskUnreachable, api.TaskStarting) }, 0},
		{"after the end", func(j *journal) { tell(j, api.TaskRunning, api.TaskKilled, api.TaskRunning) }, 1},
		{"told again to a successor", func(j *journal) {
			tell(j, api.TaskRunning, api.TaskKilled)
			j.noteStatus(status(api.TaskRunning), nil, true)
			tell(j, api.TaskKilled)
		}, 0},
		{"dropped but ran", func(j *journal) {
			j.noteStart("h1", ref, &Play{})
			j.noteEnd("h1", ref)
			j.excuseEnd(ref, "its executor crashed")
			tell(j, api.TaskDropped)
		}, 1},
		{"ends otherwise than it did", func(j *journal) {
			j.noteStart("h1", ref, &Play{ExitCode: 1})
			j.noteEnd("h1", ref)
			tell(j, api.TaskFinished)
		}, 1},
		{"an excuse", func(j *journal) {
			j.noteStart("h1", ref, &Play{})
			j.excuseHost("h1", "agent-1", "", "rebooted")
			j.noteEnd("h1", ref)
			tell(j, api.TaskGone)
		}, 0},
		{"outlives its end", func(j *journal) {
			j.noteStart("h1", ref, &Play{})
			tell(j, api.TaskFinished)
		}, 1},
		{"ends without a start", func(j *journal) { tell(j, api.TaskFinished) }, 1},
	}
	for _, test := range tests {
		j := newJournal()
		test.story(j)
		j.settlePromises()
		if len(j.violations) != test.want {
			t.Errorf("%s: want %d violations, got %q", test.name, test.want, j.violations)
		}
	}
}
