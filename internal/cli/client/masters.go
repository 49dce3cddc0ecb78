package client

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/leadersearch"
)

// mastersMax bounds what is believed of a master that names others.
const mastersMax = 64

// Masters are the addresses that the client was told of: those of its configuration, then what a master has said.
func (c *Client) Masters() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.masters)
}

// ask asks a master that has just answered who the others are, once, beside what the client is for. What goes wrong there
// concerns nobody.
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

// told takes over which masters there are: from now on all of them are tried, the leader first. Where the one that says so is
// known by another address than its own, as behind a gateway, those that were known stay, because the others may be out of reach.
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
