package nouns

import (
	"context"
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
)

// Volume is a persistent volume and the agent that holds it.
type Volume struct {
	Agent    string
	Resource api.Resource
	Used     bool // a task uses it
	Gone     bool // its agent was given up, and the data with it
}

// Why says what is to be known of a volume before anybody counts on it; "": nothing.
func (v Volume) Why() string {
	if v.Gone {
		return v.Agent + " was given up, and the data with it"
	}
	return ""
}

// VolumeNamed returns the volume with that name.
func VolumeNamed(all []Volume, name string) (found Volume, err error) {
	lost := Volume{}
	for _, p := range all {
		switch {
		case string(p.Resource.Volume) != name:
		case p.Gone:
			lost = p
		case found.Agent != "":
			return Volume{}, fmt.Errorf("volume %s is on agents %s and %s; give volumes names of their own to run with them", name, found.Agent, p.Agent)
		default:
			found = p
		}
	}
	switch {
	case found.Agent == "" && lost.Gone:
		return Volume{}, fmt.Errorf("volume %s is lost: %s", name, lost.Why())
	case found.Agent == "":
		return Volume{}, NoVolume(name)
	}
	return found, nil
}

// NoVolume returns the error that there is no volume with that name.
func NoVolume(name string) error {
	return fmt.Errorf("there is no volume %q; 'tender volume list' shows those there are", name)
}

// Volumes returns the volumes of all agents.
func Volumes(ctx context.Context, c *client.Client) ([]Volume, error) {
	agents, err := Agents.List(ctx, c, &Query{})
	if err != nil {
		return nil, err
	}
	var all []Volume
	for _, item := range agents.Items {
		volumes, err := VolumesOf(item.Message.(*apiv1.AgentView))
		if err != nil {
			return nil, err
		}
		all = append(all, volumes...)
	}
	return all, nil
}

// VolumesOf returns the volumes among an agent's resources.
func VolumesOf(agent *apiv1.AgentView) ([]Volume, error) {
	total, err := wire.ResourcesFromStruct(agent.GetTotal())
	if err != nil {
		return nil, err
	}
	allocated, err := wire.ResourcesFromStruct(agent.GetAllocated())
	if err != nil {
		return nil, err
	}
	var volumes []Volume
	for _, item := range total.Items() {
		if item.Volume != "" {
			used := slices.ContainsFunc(allocated.Items(), func(u api.Resource) bool { return u.Volume == item.Volume })
			volumes = append(volumes, Volume{agent.GetId(), item, used, isPast(Item{Message: agent})})
		}
	}
	return volumes, nil
}
