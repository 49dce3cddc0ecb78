package main

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/pack"
)

// group is the name of the tasks that are counted together.
const group = "frames"

// hand is the scheduler. Its methods are called one at a time, so it needs no lock.
type hand struct {
	client  *framework.Client
	command api.Command
	waiting []api.Task
	flying  map[api.TaskID]api.Task
	tries   int
	agents  *pack.Spread // counts the frames on each agent
	end     context.CancelFunc
}

func newHand(frames int, command api.Command, end context.CancelFunc) *hand {
	h := &hand{command: command, flying: map[api.TaskID]api.Task{}, agents: pack.NewSpread(api.ByAgent), end: end}
	for frame := range frames {
		h.enqueue(fmt.Sprintf("frame-%d", frame))
	}
	return h
}

// enqueue makes a task for a frame. An ID is never used twice, so each try has an ID of its own.
func (h *hand) enqueue(frame string) {
	h.tries++
	h.waiting = append(h.waiting, api.Task{
		ID: api.TaskID(fmt.Sprintf("%s.%d", frame, h.tries)), Name: frame, Group: group, Resources: need, Command: &h.command,
	})
}

// Subscribed is called when a session begins. Nothing is offered before it has returned, so it states the demand.
func (h *hand) Subscribed(_ context.Context, client *framework.Client) error {
	h.client = client
	return h.demand()
}

// demand states what is wanted, and that an agent with two frames need not be offered.
func (h *hand) demand() error {
	var demand api.Demand
	if n := int64(len(h.waiting)); n > 0 {
		demand.Shapes = []api.Shape{{
			Resources: need, Count: n, Group: group, Spread: []api.Spread{{By: api.ByAgent, Most: perAgent}},
		}}
	}
	return h.client.Demand(demand)
}

// Offers puts waiting frames into the offers, at most two on each agent.
func (h *hand) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	answers, left := pack.Pack(offers, h.waiting, pack.Options{
		Allow: h.agents.AtMost(perAgent),
		Rank:  h.agents.Rank,
		Put: func(bin *pack.Bin, task api.Task) {
			h.agents.Put(bin, task)
			h.flying[task.ID] = task
		},
	})
	h.waiting = left
	return answers
}

// Update is told what becomes of the tasks. A frame whose task did not finish is tried again.
func (h *hand) Update(_ context.Context, status api.Status) error {
	task, ok := h.flying[status.Task]
	if !ok || !status.State.Terminal() {
		return nil // the scheduler knows it already, or the task goes on
	}
	delete(h.flying, status.Task)
	h.agents.Ended(status.Task)
	if status.State != api.TaskFinished {
		h.enqueue(task.Name)
		return h.demand()
	}
	if len(h.waiting)+len(h.flying) == 0 {
		h.end()
	}
	return nil
}
