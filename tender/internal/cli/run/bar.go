package run

import (
	"fmt"
	"io"
	"strings"
)

// barWidth is how many characters the bar has.
const barWidth = 30

// progressBar returns one line about all instances.
func progressBar(instances, done, failed, running int) string {
	full := barWidth * done / instances
	text := fmt.Sprintf("[%s%s] %d of %d ended, %d running",
		strings.Repeat("#", full), strings.Repeat(".", barWidth-full), done, instances, running)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return text
}

// wipeLine removes the last line of a terminal.
const wipeLine = "\r\x1b[K"

// bar draws the line again. Other output is written above it.
func (o *outputs) bar(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if text != o.drawn {
		o.wipe()
		o.drawn = text
		_, _ = io.WriteString(o.stderr, text) // it is drawn again soon
	}
}

func (o *outputs) noBar() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wipe()
}

// wipe removes the bar to make room for output. Callers hold mu.
func (o *outputs) wipe() {
	if o.drawn != "" {
		_, _ = io.WriteString(o.stderr, wipeLine) // as above
		o.drawn = ""
	}
}

// aside makes sentences stand on lines of their own, between the lines of the tasks.
func (o *outputs) aside(say func(string, ...any)) func(string, ...any) {
	return func(format string, args ...any) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.wipe()
		say(format, args...)
	}
}
