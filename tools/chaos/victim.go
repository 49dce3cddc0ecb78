package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/framework"
)

// victimOutlived is how long the task of a framework outlives it after its principal was revoked.
const victimOutlived = 3 * time.Second

// victim is such a framework: it has one task, which runs until somebody ends it.
type victim struct {
	work string

	mu      sync.Mutex
	running bool      // its task runs; guarded by mu
	active  bool      // it has a session; guarded by mu
	out     time.Time // when its session last ended; guarded by mu
}

func (v *victim) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	return []api.Answer{api.Launch(offers[0], api.Task{ID: "only", Resources: api.Scalars(0.1, 16), Command: &api.Command{Shell: v.work}})}
}

func (v *victim) Update(_ context.Context, status api.Status) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.running = status.State == api.TaskRunning
	return nil
}

// Subscribed asks for resources for one task.
func (v *victim) Subscribed(_ context.Context, client *framework.Client) error {
	return client.Demand(api.Demand{Shapes: []api.Shape{{Resources: api.Scalars(0.1, 16), Count: 1}}})
}

// session notes the beginning or the end of its session.
func (v *victim) session(active bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.active = active; !active {
		v.out = time.Now()
	}
}

func (v *victim) looks() (running, active bool, out time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.running, v.active, v.out
}

// revokeFramework revokes the principal of a framework that has a task. Its session must end and not come back, and its
// task must end when its failover time is over, and not before.
func (c *certified) revokeFramework(ctx context.Context, r *report) (err error) {
	name := fmt.Sprint("victim-", time.Now().UnixNano())
	made, err := c.newToken(ctx, &apiv1.CreateTokenRequest{Kind: "framework", Principal: name, Roles: []string{"default"}})
	if err != nil {
		return err
	}
	file := filepath.Join(c.dir, name+".pid")
	v := &victim{work: "echo $$ > " + file + "; exec sleep 100000"}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- framework.Run(running, framework.Config{
			Name: name, Masters: strings.Split(c.addresses(), ","), Token: made.GetToken(), FailoverTimeout: victimOutlived,
			Metrics: framework.Metrics{Session: v.session},
		}, v)
	}()
	defer func() {
		stop()
		if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) && !api.Is(failed, api.Denied) {
			err = errors.Join(err, failed)
		}
	}()
	pid := 0
	if err := c.await(ctx, "the task of "+name, c.options.heal, func(context.Context) string {
		text, err := os.ReadFile(file)
		if pid, _ = strconv.Atoi(strings.TrimSpace(string(text))); err != nil || pid == 0 {
			return "it has not begun"
		}
		if runs, _, _ := v.looks(); !runs {
			return "its framework does not know that it runs"
		}
		return ""
	}); err != nil {
		return err
	}
	began := time.Now()
	if err := c.await(ctx, "the revocation of "+name, c.options.heal, func(ctx context.Context) string {
		return c.tender(ctx, "revoke", name, "--force")
	}); err != nil {
		return err
	}
	if err := c.await(ctx, "the end of its session", c.options.heal, func(context.Context) string {
		if _, active, _ := v.looks(); active {
			return "it has a session"
		}
		return ""
	}); err != nil {
		return err
	}
	_, _, out := v.looks()
	r.trust.out = append(r.trust.out, max(out.Sub(began), 0))
	if err := c.await(ctx, "the end of its task", c.options.heal, func(context.Context) string {
		if syscall.Kill(pid, 0) == nil {
			return "it runs"
		}
		return ""
	}); err != nil {
		return err
	}
	r.trust.outlived = append(r.trust.outlived, time.Since(out))
	if lived := time.Since(began); lived < victimOutlived {
		r.broken = append(r.broken, fmt.Sprintf("the task of %s ended %v after it was revoked; %v is its failover time", name, lived, victimOutlived))
	}
	if _, active, _ := v.looks(); active {
		r.broken = append(r.broken, name+" was revoked and has a session again")
	}
	return nil
}
