package agent

import (
	"context"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestAFormerPreparationIsOver: what is made ready for the next launch of an ID waits until the former launch's is over,
// and neither ends the other.
func TestAFormerPreparationIsOver(t *testing.T) {
	p := build(&Config{}).preparing
	task := api.TaskRef{Framework: "f1", Task: "t1"}
	first, cancelFirst := context.WithCancel(t.Context())
	one, before := p.begin(task, cancelFirst)
	if before != nil {
		t.Fatal("the first launch waits for another one")
	}
	p.stop(task) // it was DROPPED
	if first.Err() == nil {
		t.Error("what is made ready for a task that has ended is not stopped")
	}
	second, cancelSecond := context.WithCancel(t.Context())
	other, former := p.begin(task, cancelSecond)
	if former != one {
		t.Fatal("the second launch does not wait for what is still done for the first")
	}
	select {
	case <-former.over:
		t.Fatal("the first one is over before its end")
	default:
	}
	p.end(task, one)
	<-former.over
	if second.Err() != nil {
		t.Error("the end of the first one has ended the second")
	}
	p.stop(task)
	if second.Err() == nil {
		t.Error("the second one can't be stopped behind the end of the first")
	}
	if p.end(task, other); len(p.tasks) != 0 {
		t.Errorf("%d are remembered, and none is left", len(p.tasks))
	}
}
