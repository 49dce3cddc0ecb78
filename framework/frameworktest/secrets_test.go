package frameworktest_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/executor"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// confidants makes sleepers that name secrets.
func confidants(named []api.Secret, ids ...api.TaskID) *crew {
	c := sleepers(ids...)
	for i := range *c {
		(*c)[i].Secrets = named
	}
	return c
}

// Whoever leads, a task gets the secrets that it names, and keeps them when they are removed. A task that names a
// secret which does not exist ends. (R48.)
func TestSecretsReachTheirTasks(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{Masters: 3}, func(c *frameworktest.Handle) {
		c.SetSecret("eng/etl/db", "hunter2")
		c.SetSecret("eng/tls", "a key")
		c.Leader().Kill()
		named := []api.Secret{{ID: "eng/etl/db", Env: "PASSWORD"}, {ID: "eng/tls", File: "key.pem"}}
		f := c.Start(framework.Config{Name: "etl", Roles: []api.Role{"eng"}}, confidants(named, "a"))
		f.AwaitState("a", api.TaskRunning)
		c.RemoveSecret("eng/tls")
		want := map[string]string{"PASSWORD": "hunter2", "secrets/key.pem": "a key"}
		if got := f.Secrets("a"); !maps.Equal(got, want) {
			t.Errorf("the task was given %v, want %v", got, want)
		}
		late := c.Start(framework.Config{Name: "late", Roles: []api.Role{"eng"}}, confidants(named, "b"))
		late.AwaitState("b", api.TaskError)
		late.ExpectReason("b", api.ReasonSecretUnavailable)
		f.ExpectLife("a", api.TaskRunning)
	})
}

// A framework gets no secret whose role is neither its own nor below its own. It is told so, as by real masters.
func TestSecretsAreForTheirRoleAlone(t *testing.T) {
	frameworktest.Run(t, frameworktest.Cluster{}, func(c *frameworktest.Handle) {
		c.SetSecret("eng/db", "hunter2")
		named := []api.Secret{{ID: "eng/db", Env: "PASSWORD"}}
		for _, role := range []api.Role{"eng/etl", "ops", "engine"} {
			f := c.Start(framework.Config{Name: strings.ReplaceAll(string(role), "/", "-"), Roles: []api.Role{role}}, confidants(named, "a"))
			f.AwaitState("a", api.TaskError)
			f.ExpectReason("a", api.ReasonTaskUnauthorized)
		}
	})
}

// An executor's function asks for a secret by the variable that its task names.
func TestExecutorsAreGivenSecrets(t *testing.T) {
	executors := map[api.ExecutorID]frameworktest.ExecutorFunc{"db": func(_ context.Context, task *executor.Task) error {
		if value, given := task.Secret("PASSWORD"); !given || string(value) != "hunter2" {
			return errors.New("it was not given its secret")
		}
		if _, given := task.Secret("USER"); given {
			return errors.New("it was given what it did not name")
		}
		return nil
	}}
	frameworktest.Run(t, frameworktest.Cluster{Executors: executors}, func(c *frameworktest.Handle) {
		c.SetSecret("default/db", "hunter2")
		tasks := confidants([]api.Secret{{ID: "default/db", Env: "PASSWORD"}}, "a")
		(*tasks)[0].Command, (*tasks)[0].Executor = nil, &api.Executor{ID: "db", Command: api.Command{Shell: "played"}, Resources: api.Scalars(0.1, 32)}
		f := c.Start(framework.Config{Name: "db"}, tasks)
		f.AwaitState("a", api.TaskFinished)
	})
}
