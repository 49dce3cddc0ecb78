package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/tenderhq/tender/tender/internal/cli/show"
)

const help = `  Tab, 1 to 5        the next table, or that one
  up, down, j, k     another row; Page Up, Page Down, Home, End: further
  left, right        other columns, on a narrow screen; w: all columns
  /                  search: only rows with this text in a cell; Esc: all rows
  s, S               sort by the next column, or the one before; o: backwards
  Enter              describe what is chosen
  v                  its events
  x                  explain: why a framework is offered what it is, where a
                     task is, what a job waits for
  l                  the output of a task
  r                  ask again, where an answer is shown; Esc: back
  q                  end`

// reverse and plain begin and end the row at the cursor, which is also marked by a sign for terminals that show neither
// colours nor styles.
const reverse, plain = "\x1b[7m", "\x1b[m"

// linesAround is how many lines stand around the rows of a table.
const linesAround = 5

// rowsShown returns how many rows the screen has room for.
func (m *model) rowsShown() int { return max(1, m.height-linesAround) }

// View returns the screen.
func (m *model) View() tea.View {
	var lines []string
	if m.pane != nil {
		lines = append(append(lines, m.pane.title), m.pane.shown(m.height-2)...)
		lines = append(fill(lines, m.height-1), "Esc back   r again   q back")
	} else {
		lines = m.head()
		t := m.table()
		shown := t.lines(t.visible(m.rowsShown()), m.config.Now())
		lines = append(lines, "  "+shown[0])
		for i, line := range shown[1:] {
			mark := "  "
			if t.first+i == t.cursor {
				mark = "> "
			}
			lines = append(lines, mark+line)
		}
		lines = append(fill(lines, m.height-1), "? help   Enter describe   / search   s sort   q end")
	}
	for i, line := range lines {
		lines[i] = clip(show.Clean(line), m.width)
		if m.pane == nil && strings.HasPrefix(line, "> ") {
			lines[i] = reverse + lines[i] + plain
		}
	}
	view := tea.NewView(strings.Join(lines[:min(len(lines), m.height)], "\n"))
	view.AltScreen = true
	return view
}

// head returns the lines above the table.
func (m *model) head() []string {
	t := m.table()
	var tabs []string
	for i, one := range m.tables {
		tab := fmt.Sprintf("%d %s %d", i+1, one.kind.Name, len(one.rows))
		if i == m.at {
			tab = "[" + tab + "]"
		}
		tabs = append(tabs, tab)
	}
	sorted := "by " + t.column
	if t.down {
		sorted += ", large first"
	}
	switch {
	case m.typing:
		sorted += fmt.Sprintf("; /%s_ (%d)", t.filter, len(t.order))
	case t.filter != "":
		sorted += fmt.Sprintf("; %d with %q", len(t.order), t.filter)
	}
	switch {
	case m.heard.waits != nil:
		sorted += "; waiting: " + m.heard.waits.Error()
	case !m.feed.copy.Whole():
		sorted += "; the masters are being asked"
	case t == m.jobs && m.heard.jobsWhy != "":
		sorted += "; " + m.heard.jobsWhy
	}
	return []string{m.summary.line(), strings.Join(tabs, "  "), show.Clean(sorted)}
}

// all returns the lines of a frame without a screen: all rows of the table.
func (m *model) all() []string {
	t := m.table()
	return append(m.head(), t.lines(t.order, m.config.Now())...)
}

// fill adds empty lines up to a height.
func fill(lines []string, height int) []string {
	for len(lines) < height {
		lines = append(lines, "")
	}
	return lines
}

// clip cuts a line at the right edge of the screen.
func clip(line string, width int) string {
	if len(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:min(len(runes), max(1, width))])
}
