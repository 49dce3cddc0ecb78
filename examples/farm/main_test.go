package main

import (
	"context"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// TestFarm: two hundred frames of 0.3 s, two at once on each of five agents, take 6 s if no slot stands idle. Either
// way they take no more than a fifth longer, and no agent ever has three.
func TestFarm(t *testing.T) {
	const frames, agents, frame = 200, 5, 300 * time.Millisecond
	ideal := frames * frame / (agents * perAgent)
	schedulers := map[string]func(c *frameworktest.Handle) (framework.Scheduler, context.Context){
		"with taskset": func(c *frameworktest.Handle) (framework.Scheduler, context.Context) {
			set, err := newSet(frames, api.Command{Argv: []string{"render"}})
			if err != nil {
				t.Fatal(err)
			}
			return set, context.Background()
		},
		"by hand": func(c *frameworktest.Handle) (framework.Scheduler, context.Context) {
			ctx, end := context.WithCancel(context.Background())
			return newHand(frames, api.Command{Argv: []string{"render"}}, end), ctx
		},
	}
	for name, scheduler := range schedulers {
		t.Run(name, func(t *testing.T) {
			play := func(api.Task) frameworktest.Play { return frameworktest.Play{Duration: frame} }
			frameworktest.Run(t, frameworktest.Cluster{Agents: agents, Script: play, Latency: time.Millisecond}, func(c *frameworktest.Handle) {
				s, ctx := scheduler(c)
				began := c.Now()
				f := c.StartContext(ctx, config(nil), s)
				most := 0
				c.Await("the frames to be rendered", func() bool {
					for agent := range agents {
						most = max(most, len(c.Agent(agent+1).Tasks()))
					}
					return f.Count(api.TaskFinished) == frames
				})
				if took := c.Now() - began; took > ideal+ideal/5 {
					t.Errorf("it took %v, and %v if no slot stood idle", took, ideal)
				} else {
					t.Logf("it took %v, and %v if no slot stood idle", took, ideal)
				}
				if most != perAgent {
					t.Errorf("an agent had %d frames at once", most)
				}
				if err := f.Await(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
