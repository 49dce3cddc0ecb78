package rdd

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// bars draws how far the stages of a job have come: one line for the current stage, drawn over itself.
type bars struct {
	out   io.Writer
	drawn string
}

func newBars(out io.Writer) *bars { return &bars{out: out} }

const barColumns = 30

// show draws the first stage that is not done.
func (b *bars) show(stages []plan.Stage) {
	if b.out == nil {
		return
	}
	for i, stage := range stages {
		if stage.Done == stage.Total {
			continue
		}
		full := barColumns * stage.Done / stage.Total
		line := fmt.Sprintf("\rstage %d of %d [%s%s] %d of %d tasks done, %d on their way ", i+1, len(stages),
			strings.Repeat("=", full), strings.Repeat(" ", barColumns-full), stage.Done, stage.Total, stage.Running)
		if line != b.drawn {
			fmt.Fprint(b.out, line)
			b.drawn = line
		}
		return
	}
}

// end erases the line.
func (b *bars) end() {
	if b.out != nil && b.drawn != "" {
		fmt.Fprint(b.out, "\r", strings.Repeat(" ", len(b.drawn)), "\r")
	}
}
