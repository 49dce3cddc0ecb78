package allocator_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"time"
)

// point is one measurement of a curve.
type point struct {
	x    int
	took time.Duration
}

// curve is one line of a panel.
type curve struct {
	name, colour string
	points       []point
}

// Draw measures full cycles and draws how they grow with agents and with frameworks, beside the known figures of Mesos,
// on logarithmic scales.
func Draw(file string, fresh New, quick bool) error {
	n := 9
	if quick {
		n = 3
	}
	measure := func(name, colour string, sizes [][2]int, by int) (curve, error) {
		c := curve{name: name, colour: colour}
		for _, size := range sizes {
			sample, err := FullCycle(fresh, size[0], size[1], 1, n)
			if err != nil {
				return c, err
			}
			c.points = append(c.points, point{size[by], sample.Median()})
		}
		return c, nil
	}
	agents, err := measure("Tender, 1,000 frameworks", "#1f6feb", [][2]int{{1000, 1000}, {2000, 1000}, {5000, 1000}, {10000, 1000}, {20000, 1000}, {50000, 1000}}, 0)
	if err != nil {
		return err
	}
	frameworks, err := measure("Tender, 10,000 agents", "#1f6feb", [][2]int{{10000, 1}, {10000, 10}, {10000, 100}, {10000, 1000}, {10000, 6000}}, 1)
	if err != nil {
		return err
	}
	ms := time.Millisecond
	mesosAgents := curve{"Mesos, 100 to 2,000 frameworks", "#b35900", []point{{1000, 45 * ms}, {5000, 213 * ms}, {10000, 528 * ms}, {20000, 1632 * ms}, {50000, 2722 * ms}}}
	mesosFrameworks := curve{"Mesos, 1,000 agents", "#b35900", []point{{1, 31 * ms}, {100, 32 * ms}, {1000, 45 * ms}}}
	var svg strings.Builder
	svg.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 380" font-family="sans-serif" font-size="12">` + "\n")
	svg.WriteString(`<rect width="920" height="380" fill="#ffffff"/>` + "\n")
	panel(&svg, 60, "A full allocation cycle, by agents", "agents", 1000, 50000, agents, mesosAgents)
	panel(&svg, 520, "The same, by frameworks", "frameworks", 1, 6000, frameworks, mesosFrameworks)
	svg.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(svg.String()), 0o644)
}

const (
	panelWidth, panelHeight, panelTop = 370.0, 260.0, 50.0
	timeLeast, timeMost               = 100 * time.Microsecond, 10 * time.Second
)

// panel draws axes, grid and curves of one chart whose left edge is given.
func panel(svg *strings.Builder, left float64, title, unit string, least, most int, curves ...curve) {
	across := func(x int) float64 { return left + panelWidth*ratio(float64(x), float64(least), float64(most)) }
	down := func(d time.Duration) float64 {
		return panelTop + panelHeight*(1-ratio(float64(d), float64(timeLeast), float64(timeMost)))
	}
	fmt.Fprintf(svg, `<text x="%.0f" y="25" font-size="15" fill="#111">%s</text>`+"\n", left, title)
	for d := timeLeast; d <= timeMost; d *= 10 {
		fmt.Fprintf(svg, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, left, left+panelWidth, down(d), down(d))
		fmt.Fprintf(svg, `<text x="%.0f" y="%.1f" text-anchor="end" fill="#444">%s</text>`+"\n", left-6, down(d)+4, d)
	}
	marks := []int{most}
	for x := least; x < most; x *= 10 {
		marks = append(marks, x)
	}
	for _, x := range marks {
		fmt.Fprintf(svg, `<line x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f" stroke="#ddd"/>`, across(x), across(x), panelTop, panelTop+panelHeight)
		fmt.Fprintf(svg, `<text x="%.1f" y="%.0f" text-anchor="middle" fill="#444">%d</text>`+"\n", across(x), panelTop+panelHeight+18, x)
	}
	fmt.Fprintf(svg, `<text x="%.0f" y="%.0f" text-anchor="middle" fill="#444">%s</text>`+"\n", left+panelWidth/2, panelTop+panelHeight+38, unit)
	for i, c := range curves {
		var line []string
		for _, p := range c.points {
			line = append(line, fmt.Sprintf("%.1f,%.1f", across(p.x), down(p.took)))
			fmt.Fprintf(svg, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%d %s: %s</title></circle>`, across(p.x), down(p.took), c.colour, p.x, unit, short(p.took))
		}
		fmt.Fprintf(svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(line, " "), c.colour)
		fmt.Fprintf(svg, `<text x="%.0f" y="%.0f" fill="%s">%s</text>`+"\n", left+10, panelTop+16+16*float64(i), c.colour, c.name)
	}
}

// ratio returns where x lies between least and most on a logarithmic scale.
func ratio(x, least, most float64) float64 { return math.Log(x/least) / math.Log(most/least) }
