package main

import (
	"fmt"
	"strings"
	"time"
)

// chart draws which part of the cluster each framework had over time. It needs neither colour nor a wide terminal.
type chart struct {
	began   time.Time
	samples []sample
	marks   []mark
}

// sample is what two frameworks had at one time, as parts of the cluster from 0 to 1.
type sample struct {
	at        time.Time
	jobs, rdd float64
}

// mark is a time at which something happened.
type mark struct {
	at   time.Time
	what string
}

const (
	// chartRows is how many lines the chart has; each stands for a tenth of the cluster.
	chartRows = 10
	// chartColumns is how many columns fit beside the scale.
	chartColumns = 100
	// chartStep is the time that a column stands for, unless that would make too many columns.
	chartStep = 500 * time.Millisecond
)

func (c *chart) mark(at time.Time, what string) { c.marks = append(c.marks, mark{at, what}) }

// within returns the samples from a span of time.
func (c *chart) within(from, to time.Time) (list []sample) {
	for _, one := range c.samples {
		if !one.at.Before(from) && one.at.Before(to) {
			list = append(list, one)
		}
	}
	return list
}

// mean returns the mean of samples; false: there are none.
func mean(samples []sample) (m sample, is bool) {
	for _, one := range samples {
		m.jobs += one.jobs / float64(len(samples))
		m.rdd += one.rdd / float64(len(samples))
	}
	return m, len(samples) > 0
}

// String draws the chart: "r" is what rdd has, "#" what the jobs have, "." what nobody has. Below the time axis are
// letters for the marks, and below these what they mean.
func (c *chart) String() string {
	if len(c.samples) == 0 {
		return "nothing was seen\n"
	}
	span := c.samples[len(c.samples)-1].at.Sub(c.began)
	step := chartStep
	for span/step >= chartColumns {
		step *= 2
	}
	columns := int(span/step) + 1
	var out strings.Builder
	for row, line := range c.rows(columns, step) {
		fmt.Fprintf(&out, "%4d%% |%s\n", 100-row*100/chartRows, line)
	}
	scale, letters := []byte(strings.Repeat(" ", columns+8)), []byte(strings.Repeat(" ", columns+8))
	for column := 0; column < columns; column += 10 {
		copy(scale[column:], fmt.Sprintf("%.0fs", (time.Duration(column)*step).Seconds()))
	}
	for i, one := range c.marks {
		at := min(int(one.at.Sub(c.began)/step), columns-1)
		for letters[at] != ' ' && at < len(letters)-1 { // two marks in one column are drawn side by side
			at++
		}
		letters[at] = letter(i)
	}
	const margin = "       "
	fmt.Fprintf(&out, "      +%s\n", strings.Repeat("-", columns))
	fmt.Fprintf(&out, "%s%s\n%s%s\n", margin, strings.TrimRight(string(scale), " "), margin, strings.TrimRight(string(letters), " "))
	fmt.Fprintf(&out, "%sr rdd, # jobs, . free\n", margin)
	for i, one := range c.marks {
		fmt.Fprintf(&out, "%s%c %4.1fs %s\n", margin, letter(i), one.at.Sub(c.began).Seconds(), one.what)
	}
	return out.String()
}

// rows returns the lines of the chart, from the top. A column without a sample repeats the one before.
func (c *chart) rows(columns int, step time.Duration) [][]byte {
	rows := make([][]byte, chartRows)
	for row := range rows {
		rows[row] = make([]byte, columns)
	}
	var last sample
	for column := range columns {
		from := c.began.Add(time.Duration(column) * step)
		if m, is := mean(c.within(from, from.Add(step))); is {
			last = m
		}
		rdd, all := int(last.rdd*chartRows+0.5), int((last.rdd+last.jobs)*chartRows+0.5)
		for row := range rows {
			sign := byte('.')
			switch height := chartRows - row; {
			case height <= rdd:
				sign = 'r'
			case height <= all:
				sign = '#'
			}
			rows[row][column] = sign
		}
	}
	return rows
}

func letter(i int) byte { return byte('A' + i%26) }
