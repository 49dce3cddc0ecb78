package framework

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// TestAcknowledgeLater: a scheduler can acknowledge a status later, from any goroutine and also after the session has
// ended. Until then the next statuses of the task wait, and those of other tasks do not.
func TestAcknowledgeLater(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		s.update = func(_ context.Context, status api.Status) error {
			if status.Task == "slow" && status.State == api.TaskRunning {
				return fmt.Errorf("handed on: %w", ErrLater)
			}
			return nil
		}
		r := n.run(s, func(c *Config) { c.ReconcileInterval = -1 })
		session := m.lead(1)
		client := next(t, s.clients)
		session.send(statusOf("slow", 1, api.TaskRunning), statusOf("slow", 2, api.TaskFinished), statusOf("quick", 1, api.TaskRunning))
		running := next(t, s.updates)
		next(t, s.updates)
		if acks, _ := call[protocol.Acknowledge](session); len(acks.Items) != 1 || acks.Items[0].Task != "quick" {
			t.Errorf("acknowledged %+v, want only the other task", acks.Items)
		}
		session.quiet(time.Hour) // it does not come again
		if len(s.updates) != 0 {
			t.Errorf("told %+v meanwhile", <-s.updates)
		}
		session.close(errors.New("restart"))
		session = m.lead(2)
		session.quiet(time.Second)
		session.send(statusOf("slow", 1, api.TaskRunning)) // its agent sends it again
		session.quiet(time.Second)
		for range 2 { // the second does nothing
			if err := client.Acknowledge(running); err != nil {
				t.Error(err)
			}
		}
		if got := next(t, s.updates); got.State != api.TaskFinished {
			t.Errorf("then %+v", got)
		}
		var acked []uint64
		for len(acked) < 2 {
			acks, _ := call[protocol.Acknowledge](session)
			for _, item := range acks.Items {
				acked = append(acked, item.Number)
			}
		}
		if acked[0] != 1 || acked[1] != 2 {
			t.Errorf("acknowledged %v, want 1 and 2", acked)
		}
		r.end()
	})
}

// TestKillWithin: each repeat of a kill carries the grace (R12).
func TestKillWithin(t *testing.T) {
	story(t, func(t *testing.T, n *network) {
		m := n.start("m1:1")
		s := newScript()
		r := n.run(s, nil)
		session := m.lead(1)
		client := next(t, s.clients)
		session.send(statusOf("t", 1, api.TaskRunning))
		call[protocol.Acknowledge](session)
		if err := client.Kill("t", Within(time.Minute)); err != nil {
			t.Error(err)
		}
		for range 2 {
			if kill, _ := call[protocol.Kill](session); kill.Task != "t" || kill.Grace != time.Minute {
				t.Errorf("%+v", kill)
			}
			session.close(errors.New("restart"))
			session = m.lead(2)
		}
		if err := client.Kill("t", Within(-time.Second)); !api.Is(err, api.Invalid) {
			t.Errorf("a negative grace: %v", err)
		}
		r.end()
	})
}

// TestSuppressedRoles: some roles start suppressed, and the others do not.
func TestSuppressedRoles(t *testing.T) {
	config, err := Config{Name: "test", Roles: []api.Role{"a", "b", "c"}, SuppressedRoles: []api.Role{"b"}}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if got := coreConfig(config, newScript()).Suppressed; len(got) != 1 || got[0] != "b" {
		t.Errorf("starts suppressed in %v", got)
	}
	if _, err := (Config{Name: "test", SuppressedRoles: []api.Role{"other"}}).complete(); !api.Is(err, api.Invalid) {
		t.Errorf("a role that is not the framework's: %v", err)
	}
}

// TestPackageNamesItsInterfaces: the package's comment names every optional interface.
func TestPackageNamesItsInterfaces(t *testing.T) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "framework.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	text := file.Doc.Text()
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, spec := range group.Specs {
			one := spec.(*ast.TypeSpec)
			if _, is := one.Type.(*ast.InterfaceType); is && one.Name.IsExported() && !strings.Contains(text, "["+one.Name.Name+"]") {
				t.Errorf("the package's comment does not name [%s]", one.Name.Name)
			}
		}
	}
}
