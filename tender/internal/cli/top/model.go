package top

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
)

// model is what is on the screen. Only the terminal's loop uses it.
type model struct {
	ctx    context.Context
	config Config
	feed   *feed
	heard  state // how the feed stood at the last frame

	tables  []*table
	byKind  map[string]*table // those that the watch tells of, as it calls their kinds
	jobs    *table
	at      int // the table that is shown
	summary summary

	width, height int
	typing        bool  // a filter
	pane          *pane // what lies over the tables; nil: nothing
	looks         int   // counts the commands that were run
}

// frame says that the next frame is due.
type frame struct{}

// looked is what a command has written.
type looked struct {
	number int // which command it is
	text   string
}

func newModel(ctx context.Context, config Config, f *feed) *model {
	m := &model{ctx: ctx, config: config, feed: f, byKind: make(map[string]*table), width: 80, height: 24}
	m.summary.clear()
	for i, kind := range Kinds() {
		t := newTable(kind)
		m.tables = append(m.tables, t)
		if kind.Name == config.Kind.Name {
			m.at = i
		}
		if kind.Watched() != "" {
			m.byKind[kind.Watched()] = t
		} else {
			m.jobs = t
		}
	}
	t := m.table()
	t.filter = strings.ToLower(config.Filter)
	if config.Sort != "" {
		t.column = strings.ToUpper(config.Sort)
		t.wide = !slices.Contains(t.kind.Header(false), t.column)
	}
	return m
}

func (m *model) table() *table { return m.tables[m.at] }

// whole reports whether everything that there is was heard.
func (m *model) whole() bool { return m.feed.copy.Whole() && m.heard.jobs != nil }

// hear takes what has changed since the last frame into the tables.
func (m *model) hear() {
	anew, changes := m.feed.news.Next()
	if anew {
		for _, t := range m.byKind { // order: irrelevant because each is a table of its own
			t.clear()
		}
		m.summary.clear()
	}
	for _, change := range changes {
		kind, name := wire.ChangeName(change)
		if t := m.byKind[kind]; t != nil {
			t.take(name, wire.ChangeView(change))
		}
		switch kind {
		case nouns.Agents.Watched():
			m.summary.agent(name, change.GetAgent())
		case nouns.Masters.Watched():
			m.summary.master(change.GetMaster())
		}
	}
	m.heard = m.feed.now()
	m.hearJobs(m.heard.jobs)
	for _, t := range m.tables {
		t.settle()
	}
}

// hearJobs takes the jobs as they are now into their table.
func (m *model) hearJobs(jobs map[string]*apiv1.JobStatus) {
	for name, r := range m.jobs.rows { // order: irrelevant because the table has its own
		if jobs[name] == nil {
			r.stale, m.jobs.staled = true, true
			delete(m.jobs.rows, name)
		}
	}
	for name, job := range jobs { // order: as above
		if r := m.jobs.rows[name]; r == nil || r.item.Message != proto.Message(job) {
			m.jobs.take(name, job)
		}
	}
}

// Init asks for the first frame.
func (m *model) Init() tea.Cmd { return func() tea.Msg { return frame{} } }

// Update takes in a key, a new size, the next frame or what a command has written.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case frame:
		m.hear()
		if m.heard.err != nil {
			return m, tea.Quit
		}
		return m, tea.Tick(frameEvery, func(time.Time) tea.Msg { return frame{} })
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case looked:
		if m.pane != nil && m.pane.number == message.number {
			m.pane.lines = strings.Split(strings.TrimRight(message.text, "\n"), "\n")
		}
	case tea.KeyPressMsg:
		return m, m.press(message)
	}
	return m, nil
}

// press does what a key asks for.
func (m *model) press(key tea.KeyPressMsg) tea.Cmd {
	switch name := key.String(); {
	case name == "ctrl+c":
		return tea.Quit
	case m.typing:
		m.typeFilter(key)
	case m.pane != nil:
		return m.pressInPane(name)
	default:
		return m.pressInTable(name)
	}
	return nil
}

// typeFilter changes the filter as it is typed.
func (m *model) typeFilter(key tea.KeyPressMsg) {
	t := m.table()
	before := t.filter
	switch name := key.String(); {
	case name == "enter":
		m.typing = false
	case name == "esc":
		m.typing, t.filter = false, ""
	case name == "backspace":
		_, size := utf8.DecodeLastRuneInString(t.filter)
		t.filter = t.filter[:len(t.filter)-size]
	default:
		t.filter += strings.ToLower(key.Text)
	}
	if t.filter != before {
		t.again()
	}
}

// pressInTable does what a key asks for where a table is shown.
func (m *model) pressInTable(name string) tea.Cmd {
	t := m.table()
	switch name {
	case "q":
		return tea.Quit
	case "tab", "shift+tab":
		step := 1
		if name == "shift+tab" {
			step = len(m.tables) - 1
		}
		m.at = (m.at + step) % len(m.tables)
	case "1", "2", "3", "4", "5":
		m.at = int(name[0] - '1')
	case "/":
		m.typing = true
	case "esc":
		if t.filter != "" {
			t.filter = ""
			t.again()
		}
	case "s":
		t.sortBy(1)
	case "S", "shift+s":
		t.sortBy(-1)
	case "o":
		t.sortBy(0)
	case "w":
		t.wide = !t.wide
		t.again()
	case "left":
		t.skip--
	case "right":
		t.skip++
	case "?":
		m.pane = &pane{title: "help", lines: strings.Split(help, "\n")}
	case "enter":
		return m.look(describing)
	case "l":
		return m.look(logging)
	case "x":
		return m.look(explaining)
	case "v":
		return m.look(recalling)
	default:
		t.moveBy(name, m.rowsShown())
	}
	return nil
}

// moveBy moves the cursor as a key asks for.
func (t *table) moveBy(name string, page int) {
	steps := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "space": page, "home": -len(t.order), "g": -len(t.order),
		"end": len(t.order), "G": len(t.order), "shift+g": len(t.order)}
	if steps[name] == 0 {
		return
	}
	t.move(steps[name])
	if t.choose(); t.cursor == 0 {
		t.chosen = "" // whichever is the first one
	}
}
