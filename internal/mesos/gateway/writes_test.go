package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework/frameworktest"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// TestAnAcceptIsOneWrite: launches are in the framework's store before they are answered, and what has begun leaves it
// with the write of a later accept. (R87)
func TestAnAcceptIsOneWrite(t *testing.T) {
	machine := frameworktest.Machine{Resources: api.MustParseResources("cpus:4;mem:4096")}
	frameworktest.Run(t, frameworktest.Cluster{Machine: machine}, func(h *frameworktest.Handle) {
		s := &story{h: h, encoding: codec.JSON, starts: make(chan func()), uuids: make(map[string]string), latest: make(map[string]*mesosv1.TaskStatus)}
		s.start()
		defer s.stop()
		p := newPlayer(s, 0, make(map[schedulerv1.Event_Type]int))
		p.subscribe()
		const accepts = 5
		for i := range accepts {
			p.hear(5 * time.Second)
			task := fmt.Sprintf("t%d", i)
			p.tasks[task] = &played{acked: make(map[string]bool)}
			for id, offer := range p.offers { // order: there is one
				p.take(id)
				p.call(`{"type":"ACCEPT","accept":{"offer_ids":[{"value":%q}],"filters":{"refuse_seconds":0},"operations":[{"type":"LAUNCH","launch":{"task_infos":[`+
					`{"name":"t","task_id":{"value":%q},"agent_id":{"value":%q},"command":{"value":"sleep infinity"},"resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":0.1}}]}]}}]}}`,
					id, task, offer.GetAgentId().GetValue())
			}
			p.hear(5 * time.Second)
			if p.tasks[task].open == nil {
				t.Fatalf("%s has not begun:\n%s", task, strings.Join(p.did, "\n"))
			}
			p.ack(task)
		}
		entries, err := h.Frameworks()[0].Client().Store().List(context.Background(), "mesos/launch/")
		if err != nil || len(entries) != 1 || entries[0].Version != accepts {
			t.Errorf("%d accepts are %+v in the store, %v; want one entry that was written %d times", accepts, entries, err, accepts)
		}
	})
}
