package allocator_test

import (
	"fmt"
	"testing"
)

// Mesos launches 5,132 of the 19,500 tasks and then stalls. Tender launches all of them, whether frameworks tell their
// demand or not.
func TestMultiFrameworkLaunchesAll(t *testing.T) {
	for _, stated := range []bool{false, true} {
		t.Run(fmt.Sprintf("stated %v", stated), func(t *testing.T) {
			m := MultiFramework(fresh(), stated, 2000)
			t.Logf("%d of %d tasks in %d rounds, %s", m.Launched, Wanted, m.Rounds, m.Took)
			if m.Launched != Wanted {
				t.Fatal("it stalled")
			}
		})
	}
}

func TestQuotasAreMet(t *testing.T) {
	for _, size := range [][2]int{{25, 5}, {250, 50}} {
		first, idle, met := Quotas(fresh(), size[0], size[1])
		t.Logf("%d small, %d large: first %s, idle %s", size[0], size[1], first, idle)
		if !met {
			t.Errorf("%d small, %d large: a guarantee is not met", size[0], size[1])
		}
	}
}
