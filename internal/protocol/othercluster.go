package protocol

import (
	"fmt"
	"strings"

	"github.com/tenderhq/tender/api"
)

// OtherCluster is the cause of an error of kind Denied by which a master tells an agent or a scheduler that it belongs to
// another cluster. It names both clusters.
type OtherCluster string

func (o OtherCluster) Error() string { return string(o) }

// otherCluster is how it begins, by which it is known where it was read.
const otherCluster = "this is cluster "

// BelongsElsewhere is what a master of the cluster tells a peer of another one, and what may be wrong.
func BelongsElsewhere(here api.ClusterID, peer string, there api.ClusterID, wrong string) OtherCluster {
	return OtherCluster(fmt.Sprintf("%s%s, the %s belongs to %s: %s", otherCluster, here, peer, there, wrong))
}

// SaysOtherCluster says whether the text is that of an OtherCluster.
func SaysOtherCluster(text string) bool { return strings.HasPrefix(text, otherCluster) }
