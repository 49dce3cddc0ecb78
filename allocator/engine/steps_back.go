package engine

import (
	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// yields: a member that states no demand and gives offers back untouched, without a
// filter that says for how long, lets all others go first for a while. Without that,
// frameworks that want nothing more would be offered for ever what others wait for,
// because their share stays the smallest. Its offers only come later: whatever nobody
// else takes is offered to it as before.
type stepsBack struct {
	struck []*books.Member
	until  [stepBackMax + 1][]*books.Member // by round modulo; who yields until then
}

// stepBackMax bounds for how many rounds one yields; it doubles from 1.
const stepBackMax = 64

// strike notes that an offer came back untouched; Refuse with a filter that says for how long takes the note back.
func (e *line) strike(m *books.Member) {
	if !m.Struck && m.Demand == nil {
		m.Struck = true
		e.stepsBack.struck = append(e.stepsBack.struck, m)
	}
}

// forgive ends the stepping back of a member: it has launched something, or says that it wants something new.
func (e *line) forgive(m *books.Member) {
	m.Strikes, m.Struck = 0, false
	e.setSteppedBack(m, false)
}

func (e *line) setSteppedBack(m *books.Member, steppedBack bool) {
	if m.SteppedBack == steppedBack {
		return
	}
	if !m.Listed {
		m.SteppedBack = steppedBack
		return
	}
	e.all.remove(m)
	m.SteppedBack = steppedBack
	e.all.insert(m)
}

// yield makes those that were struck yield, and ends it for those whose time is over.
func (e *line) stepBack() {
	y := &e.stepsBack
	over := &y.until[e.round%(stepBackMax+1)]
	for _, m := range *over {
		if m.Role != nil && m.BackUntil == e.round {
			e.setSteppedBack(m, false)
		}
	}
	clear(*over)
	*over = (*over)[:0]
	for _, m := range y.struck {
		if m.Role == nil || !m.Struck {
			continue
		}
		m.Struck = false
		m.BackUntil = e.round + 1<<m.Strikes
		if m.Strikes < 6 {
			m.Strikes++
		}
		at := &y.until[m.BackUntil%(stepBackMax+1)]
		*at = append(*at, m)
		e.setSteppedBack(m, true)
	}
	clear(y.struck)
	y.struck = y.struck[:0]
}
