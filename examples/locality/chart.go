package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tenderhq/tender/framework/locality"
)

// measurement is a wait and its result.
type measurement struct {
	wait         time.Duration
	small, large kind
	all          locality.Numbers
}

const (
	chartWidth, chartHeight = 920, 400
	panelWidth, panelHeight = 370.0, 250.0
	panelTop                = 70.0
	smallColour             = "#1f6feb"
	largeColour             = "#b35900"
	waitColour              = "#57606a"
)

// line is a curve and its name. The name is written at the curve's last point, lowered by some pixels.
type line struct {
	name, colour string
	lower        float64
	dashed       bool
	value        func(measurement) float64
}

// draw writes locality and job time for each wait as an SVG.
func draw(file string, measured []measurement) error {
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, chartHeight)
	percent := func(k func(measurement) kind) func(measurement) float64 {
		return func(m measurement) float64 { return 100 * k(m).hitRate() }
	}
	seconds := func(k func(measurement) kind) func(measurement) float64 {
		return func(m measurement) float64 { return k(m).mean().Seconds() }
	}
	small, large := func(m measurement) kind { return m.small }, func(m measurement) kind { return m.large }
	panel(&svg, 60, "Tasks on an agent that has their block", "%", 100, 20, measured,
		line{"small jobs (3 tasks)", smallColour, 48, false, percent(small)}, line{"large jobs (100 tasks)", largeColour, -14, false, percent(large)})
	panel(&svg, 520, "From a job's arrival to its end", " s", 80, 20, measured,
		line{"small jobs", smallColour, -12, false, seconds(small)}, line{"large jobs", largeColour, -12, false, seconds(large)},
		line{"mean wait of a task for its place", waitColour, -10, true, func(m measurement) float64 { return m.all.MeanWait().Seconds() }})
	fmt.Fprintf(&svg, `<text x="60" y="%d" fill="#444">100 agents, two slots each; tasks of 10 s on average; every block on three agents; 400 small and 4 large jobs in a minute.</text>`+"\n", chartHeight-14)
	svg.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(svg.String()), 0o644)
}

// panel draws the axes, grid and curves of one chart; left is its left edge.
func panel(svg *strings.Builder, left float64, title, unit string, most, step float64, measured []measurement, lines ...line) {
	last := measured[len(measured)-1].wait.Seconds()
	across := func(m measurement) float64 { return left + panelWidth*m.wait.Seconds()/last }
	down := func(value float64) float64 { return panelTop + panelHeight*(1-value/most) }
	fmt.Fprintf(svg, `<text x="%.0f" y="30" font-size="15" fill="#111">%s</text>`+"\n", left, title)
	for value := 0.0; value <= most; value += step {
		fmt.Fprintf(svg, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#e4e4e4"/>`, left, left+panelWidth, down(value), down(value))
		fmt.Fprintf(svg, `<text x="%.0f" y="%.1f" text-anchor="end" fill="#444">%.0f%s</text>`+"\n", left-8, down(value)+4, value, unit)
	}
	for _, m := range measured {
		fmt.Fprintf(svg, `<line x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f" stroke="#e4e4e4"/>`, across(m), across(m), panelTop, panelTop+panelHeight)
		fmt.Fprintf(svg, `<text x="%.1f" y="%.0f" text-anchor="middle" fill="#444">%v</text>`+"\n", across(m), panelTop+panelHeight+18, m.wait)
	}
	fmt.Fprintf(svg, `<text x="%.0f" y="%.0f" text-anchor="middle" fill="#444">how long a job waits for a preferred agent</text>`+"\n", left+panelWidth/2, panelTop+panelHeight+38)
	for _, l := range lines {
		l.draw(svg, across, down, measured, unit)
	}
}

func (l line) draw(svg *strings.Builder, across func(measurement) float64, down func(float64) float64, measured []measurement, unit string) {
	var points []string
	for _, m := range measured {
		points = append(points, fmt.Sprintf("%.1f,%.1f", across(m), down(l.value(m))))
	}
	dash := ""
	if l.dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(svg, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5" stroke-linejoin="round"%s/>`+"\n", strings.Join(points, " "), l.colour, dash)
	for _, m := range measured {
		fmt.Fprintf(svg, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s" stroke="#ffffff"><title>%s, wait %v: %.1f%s</title></circle>`+"\n",
			across(m), down(l.value(m)), l.colour, l.name, m.wait, l.value(m), unit)
	}
	end := measured[len(measured)-1]
	fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" text-anchor="end" fill="%s" font-weight="bold">%s: %.1f%s</text>`+"\n",
		across(end), down(l.value(end))+l.lower, l.colour, l.name, l.value(end), unit)
}
