package cli

import (
	"context"
	"fmt"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/cli/client"
)

// placed is a volume and the agent that holds it.
type placed struct {
	agent  string
	volume api.Resource
}

// takeVolumes adds the volumes that --volume names to what the task asks for. Whoever
// names no role runs in that of the first volume.
func (f *runFlags) takeVolumes(ctx context.Context, c *client.Client, roleGiven bool, task *api.Task) error {
	if len(f.volumes) == 0 {
		return nil
	}
	all, err := allVolumes(ctx, c)
	if err != nil {
		return err
	}
	first := placed{}
	for _, name := range f.volumes {
		found, err := volumeNamed(all, name)
		if err != nil {
			return usage(err)
		}
		if first.agent == "" {
			first = found
		}
		if !roleGiven {
			f.role, roleGiven = string(found.volume.Reserved), true
		}
		if err := f.usable(found, first); err != nil {
			return usage(err)
		}
		task.Resources = task.Resources.Plus(api.NewResources(found.volume))
	}
	if f.instances > 1 {
		return usagef("--instances is %d, but a volume is used by one task at a time", f.instances)
	}
	return nil
}

func (f *runFlags) usable(found, first placed) error {
	switch owner := found.volume.Reserved; {
	case found.agent != first.agent:
		return fmt.Errorf("volume %s is on agent %s, volume %s on agent %s; one task can't have both",
			first.volume.Volume, first.agent, found.volume.Volume, found.agent)
	case api.NewResources(found.volume).UsableBy(api.Role(f.role)).IsZero():
		return fmt.Errorf("volume %s is of role %s, which role %s may not use; write --role %s", found.volume.Volume, owner, f.role, owner)
	}
	return nil
}

func volumeNamed(all []placed, name string) (found placed, err error) {
	for _, p := range all {
		switch {
		case string(p.volume.Volume) != name:
		case found.agent != "":
			return placed{}, fmt.Errorf("volume %s is on agents %s and %s; give volumes names of their own to run with them", name, found.agent, p.agent)
		default:
			found = p
		}
	}
	if found.agent == "" {
		return placed{}, fmt.Errorf("there is no volume %q; 'tender volume list' shows those there are", name)
	}
	return found, nil
}

func allVolumes(ctx context.Context, c *client.Client) (all []placed, err error) {
	request := &apiv1.ListRequest{}
	for {
		page, err := c.Operator().ListAgents(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, agent := range page.GetItems() {
			err := volumesOf(agent, func(volume api.Resource, _ bool) { all = append(all, placed{agent.GetId(), volume}) })
			if err != nil {
				return nil, err
			}
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return all, nil
		}
	}
}
