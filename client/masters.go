package client

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/lookout/leadersearch"
)

// mastersMax is how many masters are accepted from a master that names the others.
const mastersMax = 64

// Masters returns the known addresses: those of the configuration, or those that a master has told.
func (c *Client) Masters() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.masters)
}

// ask asks a master that has just answered for the other masters, once, beside the call. Errors are ignored.
func (c *Client) ask(address string, conn *grpc.ClientConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config.Told == nil || c.asked == address || c.closed {
		return
	}
	c.asked = address
	c.asking.Go(func() {
		ctx, cancel := context.WithTimeout(c.ending, attemptMax)
		defer cancel()
		if view, err := apiv1.NewOperatorServiceClient(conn).GetCluster(ctx, &apiv1.GetClusterRequest{}); err == nil {
			c.told(address, view)
		}
	})
}

// told takes over the masters that a master has told: from now on all of these are tried, the leader first. If the
// master is known by another address than the one it tells, as behind a gateway, the known addresses are kept, because
// the others may not be reachable.
func (c *Client) told(by string, view *apiv1.ClusterView) {
	masters := view.GetMasterAddresses()
	if len(masters) == 0 || len(masters) > mastersMax || slices.ContainsFunc(masters, func(address string) bool { return CheckAddress(address) != nil }) {
		return
	}
	if leader := view.GetLeaderAddress(); slices.Contains(masters, leader) {
		masters = slices.Concat([]string{leader}, masters)
	}
	c.mu.Lock()
	if !slices.Contains(masters, by) {
		masters = slices.Concat([]string{by}, masters, c.masters)
	}
	known := leadersearch.InOrder(masters)
	masters = known.Masters()
	masters = masters[:min(len(masters), mastersMax)]
	c.masters = masters
	c.mu.Unlock()
	c.config.Told(slices.Clone(masters))
}
