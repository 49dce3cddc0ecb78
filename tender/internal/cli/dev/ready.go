package dev

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

const (
	readyPoll = 20 * time.Millisecond
	// slowAfter is the time after which people are told what is missing, and again each time that it has passed once
	// more.
	slowAfter = 5 * time.Second
)

// awaitReady returns when a master leads and every agent has reported.
func (h *house) awaitReady(ctx context.Context, operator apiv1.OperatorServiceClient) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	told := h.start
	for {
		missing := h.findMissing(ctx, operator)
		if missing == "" {
			return nil
		}
		if time.Since(told) > slowAfter {
			told = time.Now()
			h.config.Say("still starting: %s", missing)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tellReady writes dev.json and tells people that everything is running.
func (h *house) tellReady() error {
	h.mu.Lock()
	h.cluster.Took, h.described = time.Since(h.start), true
	shown := h.cluster
	h.mu.Unlock()
	if err := h.writeDescription(); err != nil {
		return err
	}
	h.config.Ready(shown)
	return nil
}

// findMissing says what is not running yet; "" if nothing is missing. It finds the agents' IDs by their addresses.
func (h *house) findMissing(ctx context.Context, operator apiv1.OperatorServiceClient) string {
	answer, err := operator.ListAgents(ctx, &apiv1.ListRequest{})
	if err != nil {
		return fmt.Sprintf("no master leads yet (%v)", err)
	}
	up := 0
	for i := range h.cluster.Agents {
		agent := &h.cluster.Agents[i]
		for _, item := range answer.GetItems() {
			works := item.GetState() == api.AgentRunning.String() || item.GetState() == api.AgentBusy.String()
			if item.GetAddress() == agent.HTTP && works {
				agent.ID = item.GetId()
				up++
			}
		}
	}
	if up < len(h.cluster.Agents) {
		return fmt.Sprintf("%d of %d agents are up", up, len(h.cluster.Agents))
	}
	return ""
}

func (c Cluster) masterAddresses() []string {
	var addresses []string
	for _, master := range c.Masters {
		addresses = append(addresses, master.GRPC)
	}
	return addresses
}
