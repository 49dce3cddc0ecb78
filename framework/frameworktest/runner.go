package frameworktest

import (
	"context"
	"fmt"
)

// runner runs the process of a master, an agent or a scheduler: of those that it has had, it knows the last one.
type runner struct {
	stop  context.CancelFunc // nil: it never began
	ended chan struct{}
	err   error // result of Run, once it has ended
}

// beginRun begins the process, which ends when the context does.
func (r *runner) beginRun(ctx context.Context, h *Handle, host string, run func(context.Context) error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	r.stop, r.ended = stop, ended
	h.live.Go(func() {
		defer close(ended)
		r.err = run(ctx)
		h.logs.add(host, fmt.Sprintf("Run returned %v", r.err))
	})
}

// runs reports whether the process runs.
func (r *runner) runs() bool {
	if r.stop == nil {
		return false
	}
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// endRun ends the process in order.
func (r *runner) endRun() {
	if r.stop != nil {
		r.stop()
		<-r.ended
	}
}
