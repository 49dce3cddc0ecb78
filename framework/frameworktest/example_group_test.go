package frameworktest_test

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/frameworktest"
)

// pod answers an offer with a server and a proxy in front of it: both are launched, or neither.
func pod(offer api.Offer, name string) api.Answer {
	part := func(part, command string) api.Task {
		return api.Task{
			ID:        api.TaskID(name + "-" + part),
			Command:   &api.Command{Shell: command},
			Resources: api.Scalars(0.5, 128),
		}
	}
	return api.LaunchGroup(offer,
		part("server", "exec ./serve --socket $TENDER_TASK_SHARED/server.sock"),
		part("proxy", "exec ./proxy --to $TENDER_TASK_SHARED/server.sock"))
}

// onePod launches one pod.
type onePod struct{ launched bool }

func (p *onePod) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	if p.launched {
		return nil
	}
	p.launched = true
	return []api.Answer{pod(offers[0], "web")}
}

func (p *onePod) Update(context.Context, api.Status) error { return nil }

// When one task of a group ends other than FINISHED, the others are killed.
func Example_taskGroup() {
	script := func(api.Task) frameworktest.Play { return frameworktest.Play{Forever: true} }
	frameworktest.Example(frameworktest.Cluster{Script: script}, func(c *frameworktest.Handle) {
		f := c.Start(framework.Config{Name: "pods"}, &onePod{})
		f.AwaitCount(2, api.TaskRunning)
		f.EndTask("web-server", frameworktest.Play{ExitCode: 1})
		end := f.AwaitState("web-proxy", api.TaskKilled)
		fmt.Println(end.State, end.Reason, end.Message)
	})
	// Output:
	// KILLED TASK_GROUP_FAILED task web-server of its group has ended FAILED
}
