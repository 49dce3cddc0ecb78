package settings

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
)

// ParseURI reads SOURCE[,OPTION...]: a file for a task, and what to do with it.
func ParseURI(text string) (api.URI, error) {
	source, options, _ := strings.Cut(text, ",")
	uri := api.URI{Source: source}
	if source == "" {
		return uri, fmt.Errorf("%q names no source; write a path or an address", text)
	}
	for option := range strings.SplitSeq(options, ",") {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "":
		case "name":
			uri.Name = value
		case "sha256":
			uri.SHA256 = value
		case "executable":
			uri.Executable = true
		case "extract":
			uri.Extract = true
		default:
			return uri, Unknown("option", name, []string{"name", "sha256", "executable", "extract"})
		}
	}
	return uri, nil
}

// ParsePorts reads NAME or NAME=NUMBER for each port of a task. A number of 0 leaves the port to the offer.
func ParsePorts(texts []string) (map[string]uint16, error) {
	ports := map[string]uint16{}
	numbered := 0
	for _, text := range texts {
		name, value, given := strings.Cut(text, "=")
		if err := api.CheckPortName(name); err != nil {
			return nil, err
		}
		if _, err := strconv.ParseUint(name, 10, 16); err == nil && !given {
			return nil, fmt.Errorf("%q is the name of no port but a number; write NAME=%s for that port of the agent, such as http=%s", text, text, text)
		}
		var number uint64
		if given {
			var err error
			if number, err = strconv.ParseUint(value, 10, 16); err != nil || number == 0 {
				return nil, fmt.Errorf("%q is no port; write NAME, or NAME=NUMBER with a number from 1 to 65535", text)
			}
			numbered++
		}
		if _, twice := ports[name]; twice {
			return nil, fmt.Errorf("port %s is named twice", name)
		}
		ports[name] = uint16(number)
	}
	if numbered > 0 && numbered < len(ports) {
		return nil, fmt.Errorf("some ports have numbers and some have none; write a number for each, or for none")
	}
	return ports, nil
}

// JudgeTask returns why a task that flags describe can never be started; nil if it can. Port numbers that come only
// with an offer are not checked.
func JudgeTask(task api.Task) error {
	task.ID = "task"
	number := uint16(1)
	numbered := make(map[string]uint16, len(task.Ports))
	for name := range task.Ports { // order: irrelevant because any numbers do
		numbered[name] = number
		number++
	}
	task.Ports, task.Resources = numbered, task.Resources.Plus(PortResources(numbered))
	for i := range task.Checks {
		if port := task.Checks[i].PortName(); port != "" && numbered[port] == 0 {
			return fmt.Errorf("--check: port %q is none of the task's; write --port %s too", port, port)
		}
	}
	return task.Check()
}

// PortResources returns the ports of the task that have a number, as resources.
func PortResources(ports map[string]uint16) api.Resources {
	var ranges []api.Range
	for _, port := range ports { // order: irrelevant because ranges are sorted
		if port != 0 {
			ranges = append(ranges, api.Range{Begin: uint64(port), End: uint64(port)})
		}
	}
	if len(ranges) == 0 {
		return api.Resources{}
	}
	return api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(ranges...)})
}
