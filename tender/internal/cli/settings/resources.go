package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// meant holds names that people write for the kinds that agents detect. Such a name would be a kind of its own, of
// which no agent has anything.
var meant = map[string]string{
	"cpu": "cpus", "core": "cpus", "cores": "cpus", "vcpu": "cpus", "vcpus": "cpus", "cpus": "cpus",
	"memory": "mem", "ram": "mem", "mb": "mem", "mem": "mem",
	"disks": "disk", "storage": "disk", "disk": "disk",
	"gpu": "gpus", "gpus": "gpus",
	"port": "ports", "ports": "ports",
}

// ParseResources reads resources as people write them. It refuses names that are nearly those of a known kind, with a
// question.
func ParseResources(text string) (api.Resources, error) {
	resources, err := api.ParseResources(text)
	if err != nil {
		return resources, err
	}
	var wrong, right []string
	for _, item := range resources.Items() {
		kind := meant[strings.ToLower(item.Name)]
		if kind != "" && kind != item.Name && !slices.Contains(right, kind) {
			wrong, right = append(wrong, fmt.Sprintf("%q", item.Name)), append(right, kind)
		}
	}
	if len(wrong) > 0 {
		return resources, fmt.Errorf("resources %q: nothing is called %s; did you mean %s?", text, strings.Join(wrong, " or "), strings.Join(right, ", "))
	}
	return resources, nil
}
