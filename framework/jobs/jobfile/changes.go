package jobfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tenderhq/tender/framework/jobs"
)

// Changes lists what differs in the second job, one line for each field. Both jobs are compared with their defaults
// filled in.
func Changes(before, after jobs.Job) ([]string, error) {
	old, err := flat(before)
	if err != nil {
		return nil, err
	}
	fresh, err := flat(after)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(old)
	maps.Copy(all, fresh)
	var lines []string
	for _, field := range slices.Sorted(maps.Keys(all)) {
		was, had := old[field]
		is, has := fresh[field]
		switch {
		case !had:
			lines = append(lines, fmt.Sprintf("%s: %s", field, is))
		case !has && zeroOf(was) != "":
			lines = append(lines, fmt.Sprintf("%s: %s, was %s", field, zeroOf(was), was))
		case !has:
			lines = append(lines, fmt.Sprintf("%s: no more, was %s", field, was))
		case was != is:
			lines = append(lines, fmt.Sprintf("%s: %s, was %s", field, is, was))
		}
	}
	return lines, nil
}

// flat returns each value of a job by the name of its field.
func flat(job jobs.Job) (values map[string]string, err error) {
	tree, err := Encode(job.WithDefaults())
	values = make(map[string]string)
	flatten(values, tree, "")
	return values, err
}

func flatten(values map[string]string, from any, field string) {
	switch from := from.(type) {
	case map[string]any:
		for name, value := range from { // order: irrelevant because the result is a map
			flatten(values, value, below(field, name))
		}
	case []any:
		for i, value := range from {
			flatten(values, value, fmt.Sprintf("%s[%d]", field, i))
		}
	default:
		values[field] = shown(from)
	}
}

// zeroOf returns what a number or a yes is when a job leaves it out; "": the value is neither.
func zeroOf(shown string) string {
	if shown == "true" {
		return "false"
	}
	if _, err := strconv.ParseFloat(shown, 64); err == nil {
		return "0"
	}
	return ""
}
