package protocol

import (
	"fmt"

	"github.com/tenderhq/tender/api"
)

// OtherCluster is the cause of an error of kind Denied by which a master tells an agent or a scheduler that it belongs to
// another cluster. It names both clusters.
type OtherCluster string

func (o OtherCluster) Error() string { return string(o) }

// BelongsElsewhere is what a master of the cluster tells a peer of another one, and what may be wrong.
func BelongsElsewhere(here api.ClusterID, peer string, there api.ClusterID, wrong string) OtherCluster {
	return OtherCluster(fmt.Sprintf("this is cluster %s, the %s belongs to %s: %s", here, peer, there, wrong))
}
