package run

import (
	"context"
	"fmt"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/words"
)

// cluster is the cluster in which a run began.
type cluster struct {
	id    string
	asked time.Time
}

// clusterEvery is how often a run checks whether its cluster is still the same.
const clusterEvery = 5 * time.Second

// Replaced is the error of a run that ended because another cluster, which does not know it, answers at the masters'
// addresses.
type Replaced struct {
	Was, Is string
	Left    int // how many instances had not ended
}

func (r *Replaced) Error() string {
	return fmt.Sprintf("the cluster was replaced: the masters are of %s now, this run began in %s; of the %s that had not ended nobody knows more",
		r.Is, r.Was, words.Count(r.Left, "task"))
}

// sameCluster returns an error if the masters belong to another cluster than at the beginning. Masters that do not
// answer prove nothing.
func (r *runner) sameCluster() error {
	if time.Since(r.cluster.asked) < clusterEvery {
		return nil
	}
	r.cluster.asked = time.Now()
	ctx, cancel := context.WithTimeout(r.job.own, lookMax)
	defer cancel()
	view, err := r.config.Operator.GetCluster(ctx, &apiv1.GetClusterRequest{})
	if err != nil || view.GetClusterId() == "" {
		return nil // other code reports why
	}
	if r.cluster.id == "" {
		r.cluster.id = view.GetClusterId()
	}
	if r.cluster.id == view.GetClusterId() {
		return nil
	}
	done, _, _ := r.job.counts()
	return &Replaced{Was: r.cluster.id, Is: view.GetClusterId(), Left: r.config.Instances - done}
}
