package hang

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestAWaitWithoutEndTellsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		began := time.Now()
		over, release := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			Await(f, "the daemon's word", func() string { return "the daemon sleeps" }, func() int { <-release; return 1 })
		}()
		<-over
		if want := "the daemon's word: has not come for 4m0s\nthe daemon sleeps"; f.said != want {
			t.Errorf("it said %q, not %q", f.said, want)
		}
		if took := time.Since(began); took != After {
			t.Errorf("it waited for %v", took)
		}
		close(release)
	})
}

func TestAWaitThatEndsReturnsWhatCame(t *testing.T) {
	if got := Await(t, "seven", nil, func() int { return 7 }); got != 7 {
		t.Errorf("got %d", got)
	}
}
