package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

const header = `# What one step on each hot path costs, and how many times more it may cost where there is much beside it.
# make check-cost compares. Lower it: make check-cost ARGS=-write. A higher number needs a reason: ARGS='-write -why "..."'.
#
# path | package | benchmark with little beside it | with much | grows at most | statements | allocations | why
`

// slack is how much more than the numbers in the file a step may cost: maps are walked in random order, and the
// runtime allocates now and then.
const slack = 1.03

// path is a hot path: what one step on it may cost.
type path struct {
	name, pkg string
	few, many string  // the benchmark of one step with little beside it, and with much
	growthMax float64 // how many times more statements a step may cost with much beside it
	allowed   cost    // with little beside it
	why       string  // what made it cost this much, if it was raised
}

// cost is what one step costs.
type cost struct{ statements, allocations float64 }

// measured is what a step of a path costs now.
type measured struct{ few, many cost }

// growth says how many times more a step costs with much beside it, in statements or in allocations.
func (m measured) growth() float64 {
	// A step that allocates next to nothing does not grow by one more allocation.
	return max(m.many.statements/max(m.few.statements, 1), (m.many.allocations+5)/(m.few.allocations+5))
}

// complaints says what a path's step costs more than it may.
func (p path) complaints(m measured) (found []string) {
	if p.allowed.statements > 0 && m.few.statements > p.allowed.statements*slack {
		found = append(found, fmt.Sprintf("%s: %.0f statements, and %.0f are allowed", p.name, m.few.statements, p.allowed.statements))
	}
	if p.allowed.statements > 0 && m.few.allocations > p.allowed.allocations*slack+0.5 {
		found = append(found, fmt.Sprintf("%s: %.1f allocations, and %.1f are allowed", p.name, m.few.allocations, p.allowed.allocations))
	}
	if m.growth() > p.growthMax {
		found = append(found, fmt.Sprintf("%s: a step of %s costs %.2f times one of %s (%.0f and %.0f statements, %.1f and %.1f allocations), and may %.2f times",
			p.name, p.many, m.growth(), p.few, m.many.statements, m.few.statements, m.many.allocations, m.few.allocations, p.growthMax))
	}
	return found
}

// written returns the path with what was measured as what is allowed: where it is less than before, or, if the step was
// refused, with the reason why.
func (p path) written(m measured, refused []string, why string) path {
	if len(refused) > 0 || p.allowed.statements == 0 {
		p.allowed, p.why = m.few, why
		return p
	}
	p.allowed = cost{min(p.allowed.statements, m.few.statements), min(p.allowed.allocations, m.few.allocations)}
	return p
}

// parsePaths reads the table of paths.
func parsePaths(text string) (paths []path, err error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, err := parsePath(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		paths = append(paths, p)
	}
	return paths, nil
}

func parsePath(line string) (p path, err error) {
	cells := strings.Split(line, "|")
	if len(cells) != 8 {
		return p, fmt.Errorf("%d cells, and a path has 8", len(cells))
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	p = path{name: cells[0], pkg: cells[1], few: cells[2], many: cells[3], why: cells[7]}
	for i, number := range []*float64{&p.growthMax, &p.allowed.statements, &p.allowed.allocations} {
		if *number, err = strconv.ParseFloat(cells[4+i], 64); err != nil {
			return p, err
		}
	}
	return p, nil
}

// formatPaths is the reverse of parsePaths.
func formatPaths(paths []path) string {
	var out bytes.Buffer
	table := tabwriter.NewWriter(&out, 0, 0, 1, ' ', 0)
	for _, p := range paths {
		fmt.Fprintf(table, "%s\t| %s\t| %s\t| %s\t| %.2f\t| %.0f\t| %.1f\t| %s\n", p.name, p.pkg, p.few, p.many, p.growthMax,
			p.allowed.statements, p.allowed.allocations, p.why)
	}
	table.Flush() //nolint:errcheck // it writes to memory
	var trimmed strings.Builder
	for line := range strings.Lines(out.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return trimmed.String()
}
