package engine

import (
	"github.com/tenderhq/tender/allocator/engine/internal/books"
)

// stepsBack knows the members that have stepped back. A member steps back if it states no demand and gives offers back
// untouched, without a filter that says for how long: it then lets all others go first for a while. Without that,
// frameworks that want nothing more would always be offered what others wait for, because their share stays the
// smallest. Their offers only come later: what nobody else takes is offered to them as before.
type stepsBack struct {
	struck []*books.Member
	until  [stepBackMax + 1][]*books.Member // by round modulo the length: the members that step back until that round
}

// stepBackMax bounds for how many rounds a member steps back; the number doubles from 1.
const stepBackMax = 64

// strike notes that an offer came back untouched. A Refuse with a filter that says for how long removes the note.
func (e *line) strike(m *books.Member) {
	if !m.Struck && m.Demand == nil {
		m.Struck = true
		e.stepsBack.struck = append(e.stepsBack.struck, m)
	}
}

// forgive lets a member that has stepped back go first again, because it has launched something or says that it wants
// something new.
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

// stepBack makes the members step back that were struck, and ends that for those whose time is over.
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
