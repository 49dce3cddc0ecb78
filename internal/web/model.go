package web

import (
	"time"
	"unicode/utf8"

	"github.com/a-h/templ"
)

// page is a view as a value.
type page struct {
	title   string
	nav     string // the entry of the navigation that it belongs to: an address
	command string // what shows the same on the command line
	blocks  []block
	code    int    // of the answer; 0: 200
	why     string // there is no view
	still   bool   // it says what was so when it was made, and gets no patches
	head    head
	track   track
}

// block is a part of a page that changes by itself.
type block struct {
	key         string // unique in its page
	title, note string
	command     string // what shows the same on the command line
	links       []link // to views beside it
	actions     []link // to what one can do about it
	body        templ.Component
	wide        bool
	late        string // not empty: a page that gets patches comes without it at first; at this address it has it
	slow        bool   // it is so large that it is patched less often
}

// link is a place that one can go to.
type link struct{ text, href string }

// head is what stands above every view.
type head struct {
	viewer      Viewer
	cluster     string
	leader, why string // why: what is wrong with the cluster as a whole
	missing     string // what is not known yet
	agents      string
	tasks       string
	then        time.Time // the moment of the past that is shown; zero: none
}

// cell is a place in a table.
type cell struct {
	text  string
	href  string
	class string // good, warn, bad, soft, num; long: only its first lines are shown
	at    time.Time
}

// longMost is how many characters a cell has that is not cut where it is shown in short.
const longMost = 100

// inShort is a text of which only the first lines are shown if it is long.
func inShort(said string) cell {
	if utf8.RuneCountInString(said) > longMost {
		return cell{text: said, class: "long"}
	}
	return text(said)
}

// shortMost is how many characters a cell has that stays in one line. A name such as agent-1 has no line break in it.
const shortMost = 24

// kind returns the class of the place in which the cell stands; "": it has none.
func (c cell) kind() string {
	switch {
	case c.class == "num":
		return "num"
	case c.text != "" && utf8.RuneCountInString(c.text) <= shortMost:
		return "short"
	}
	return ""
}

// row is a line of a table. Its key is unique in the table, so that it is known again when others come and go.
type row struct {
	key   string
	cells []cell
}

// table is a list. If it has no rows it says so, and what one may do next.
type table struct {
	columns []string
	rows    []row
	empty   string
	next    string // a command
	place   string // which part of the list this is
	before  link   // the part before it
	more    link   // where the list goes on
}

// field is a fact with its name.
type field struct {
	name string
	cell
}

// figure is a number that is seen at once, with what it is made of.
type figure struct {
	name, value, of, note string
	parts                 []part // drawn as a bar
	href                  string
}

// part is a share of a whole, from 0 to 1.
type part struct {
	class string
	from  float64
	size  float64
}

func text(text string) cell     { return cell{text: text} }
func to(text, href string) cell { return cell{text: text, href: href} }
func since(at time.Time) cell   { return cell{at: at} }
func number(text string) cell   { return cell{text: text, class: "num"} }
