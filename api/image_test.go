package api_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestImages: a task's image must look like a reference. The command may be left to the image. A task of a framework's
// own executor has no image.
func TestImages(t *testing.T) {
	for _, c := range []struct {
		image string
		want  string // of the error; "": none
	}{
		{"alpine", ""},
		{"docker.io/library/alpine:3.20", ""},
		{"127.0.0.1:5000/a/b_c:v1@sha256:0123", ""},
		{"[::1]:5000/a", ""},
		{"https://docker.io/alpine", "references have none"},
		{"an image", "is no reference"},
		{"-alpine", "is no reference"},
		{"/alpine", "is no reference"},
		{"alpine\x00", "is no reference"},
		{"\xff", "is no reference"},
		{strings.Repeat("a", 600), "has 600 bytes, at most 512 are allowed"},
		{"", "neither command nor executor nor image is set"},
	} {
		for _, command := range []*api.Command{nil, {}, {Argv: []string{"x"}}, {Env: map[string]string{"A": "b"}}} {
			task := api.Task{ID: "t", Resources: api.Scalars(1, 32), Command: command, Image: c.image}
			if c.image == "" && command != nil {
				continue
			}
			err := task.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%.50q, %+v: %v", c.image, command, err)
			}
		}
	}
	task := api.Task{
		ID: "t", Resources: api.Scalars(1, 32), Image: "alpine", Executor: &api.Executor{ID: "x", Command: api.Command{Argv: []string{"x"}}},
	}
	if err := task.Check(); err == nil || !strings.Contains(err.Error(), "executor x has its own program") {
		t.Errorf("%v", err)
	}
	task = api.Task{ID: "t", Resources: api.Scalars(1, 32), Command: &api.Command{}}
	if err := task.Check(); err == nil || !strings.Contains(err.Error(), "the command is empty") {
		t.Errorf("%v", err)
	}
}
