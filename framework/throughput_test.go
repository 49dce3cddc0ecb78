package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// endless launches tasks until enough have ended.
type endless struct {
	script
	next, ended, enough int
	done                chan struct{}
}

func (e *endless) Offers(_ context.Context, offers []api.Offer) (answers []api.Answer) {
	for _, offer := range offers {
		tasks := make([]api.Task, 20)
		for i := range tasks {
			e.next++
			tasks[i] = taskOf(fmt.Sprint("task-", e.next))
		}
		answers = append(answers, api.Launch(offer, tasks...))
	}
	return answers
}

func (e *endless) Update(_ context.Context, status api.Status) error {
	if status.State.Terminal() {
		if e.ended++; e.ended == e.enough {
			close(e.done)
		}
	}
	return nil
}

// BenchmarkLives runs the lives of tasks through the SDK and one stream, with a master that answers at once. The work
// of both sides is measured.
func BenchmarkLives(b *testing.B) {
	n := &network{t: b, masters: make(map[string]*fakeMaster)}
	m := n.start("m1:1")
	e := &endless{enough: b.N, done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- Run(ctx, Config{Name: "bench", Masters: []string{"m1:1"}, Dialer: n.dial}, &plain{e})
	}()
	session := <-m.sessions
	session.term = api.Term{Number: 1}
	session.activate()
	offered := 0
	offer := func() {
		offered++
		session.send(protocol.Offers{Offers: []api.Offer{offerOf(fmt.Sprint("offer-1-", offered))}})
	}
	b.ResetTimer()
	for range 20 {
		offer()
	}
	go func() {
		for call := range session.calls {
			accept, ok := call.Call.(protocol.Accept)
			if !ok {
				continue
			}
			var events []protocol.SchedulerEvent
			for _, task := range accept.Operations[0].Tasks {
				events = append(events, statusOf(string(task.ID), 1, api.TaskRunning), statusOf(string(task.ID), 2, api.TaskFinished))
			}
			session.send(events...)
			offer()
		}
	}()
	began := time.Now()
	<-e.done
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "lives/s")
	b.StopTimer()
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		b.Error(err)
	}
}

// plain hides the optional interfaces.
type plain struct{ Scheduler }
