package top

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

// pane is a text that lies over the tables: what another command says of a thing, or the help.
type pane struct {
	title  string
	number int      // which command has written it
	args   []string // the command; nil: it is the help
	lines  []string
	first  int // the first line on the screen
}

// pressInPane does what a key asks for where a pane is shown.
func (m *model) pressInPane(name string) tea.Cmd {
	p, page := m.pane, max(1, m.height-2)
	switch name {
	case "esc", "q", "left", "backspace":
		m.pane = nil
	case "r":
		if p.args != nil {
			return m.run(p.args)
		}
	case "up", "k":
		p.first--
	case "down", "j":
		p.first++
	case "pgup":
		p.first -= page
	case "pgdown", "space":
		p.first += page
	case "home", "g":
		p.first = 0
	case "end", "G", "shift+g":
		p.first = len(p.lines)
	}
	return nil
}

// shown returns the lines of the pane that are on a screen of that height.
func (p *pane) shown(height int) []string {
	height = max(1, height)
	p.first = max(0, min(p.first, len(p.lines)-height))
	return p.lines[p.first:min(len(p.lines), p.first+height)]
}

// A question returns the command that answers it for a thing; nil: none does.
type question func(kind nouns.Kind, item nouns.Item) []string

func describing(kind nouns.Kind, item nouns.Item) []string {
	return []string{"describe", strings.TrimSuffix(kind.Name, "s"), item.ID}
}

func logging(kind nouns.Kind, item nouns.Item) []string {
	if kind.Name != nouns.Tasks.Name {
		return nil
	}
	return []string{"logs", "--tail", "1000", item.ID}
}

func explaining(kind nouns.Kind, item nouns.Item) []string {
	switch view := item.Message.(type) {
	case *apiv1.FrameworkView, *apiv1.TaskView:
		return []string{"explain", item.ID}
	case *apiv1.JobStatus:
		return []string{"explain", view.GetFrameworkId()}
	}
	return nil
}

// recalling asks for the events of a thing.
func recalling(kind nouns.Kind, item nouns.Item) []string {
	return []string{"events", "--of", strings.TrimSuffix(kind.Name, "s") + "/" + item.ID}
}

// look asks something of the thing at the cursor.
func (m *model) look(ask question) tea.Cmd {
	t := m.table()
	if t.cursor >= len(t.order) {
		return nil
	}
	args := ask(t.kind, t.order[t.cursor].item)
	if args == nil {
		return nil
	}
	t.choose() // so that it is still chosen afterwards
	m.pane = &pane{title: "tender " + strings.Join(args, " "), args: args, lines: []string{"..."}}
	return m.run(args)
}

// run runs a command whose text the pane shows.
func (m *model) run(args []string) tea.Cmd {
	m.looks++
	number := m.looks
	m.pane.number = number
	return func() tea.Msg { return looked{number, m.config.Look(m.ctx, args...)} }
}
