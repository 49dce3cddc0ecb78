package run

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenderhq/tender/api"
)

// If another cluster answers at the masters' addresses, a run of the earlier one ends and says so.
func TestARunWhoseClusterWasReplacedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tell(3, nil)
		s.offer(2)
		s.update(t, "hello.0", api.TaskFinished, 0)
		cluster, began := "cluster-1", time.Now()
		config := s.config
		config.Operator = &desk{trouble: func() error { return nil }, cluster: func() string {
			if time.Since(began) > time.Minute {
				cluster = "cluster-2"
			}
			return cluster
		}}
		r := &runner{config: config, job: s.job}
		err := r.watch(t.Context(), make(chan error))
		if !errors.As(err, new(*Replaced)) || !strings.Contains(err.Error(), "of the 2 tasks that had not ended") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+2*clusterEvery {
			t.Errorf("took %v", took)
		}
	})
}
