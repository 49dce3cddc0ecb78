package api_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
)

func TestCheckTaskGroup(t *testing.T) {
	one := func(id api.TaskID) api.Task {
		return api.Task{ID: id, Resources: api.Scalars(1, 1), Command: &api.Command{Shell: "true"}}
	}
	with := func(change func(*api.Task)) []api.Task {
		tasks := []api.Task{one("a"), one("b")}
		change(&tasks[1])
		return tasks
	}
	many := make([]api.Task, api.GroupTasksMax+1)
	for _, c := range []struct {
		tasks []api.Task
		says  string
	}{
		{with(func(*api.Task) {}), ""},
		{nil, "a group of 0 tasks; it must have 1 to 64"},
		{many, "a group of 65 tasks"},
		{with(func(b *api.Task) { b.ID = "a" }), "the group has two tasks a"},
		{with(func(b *api.Task) { b.Executor = &api.Executor{ID: "x"} }), "has executor command and task b has x; a group has one executor"},
		{with(func(b *api.Task) { b.Command.User = "ann" }), `asks for the user "" and task b for "ann"`},
		{with(func(b *api.Task) { b.Data = make([]byte, api.GroupBytesMax) }), "bytes together, at most 524288 are allowed"},
	} {
		switch err := api.CheckTaskGroup(c.tasks); {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("want %q, got %v", c.says, err)
		}
	}
}
