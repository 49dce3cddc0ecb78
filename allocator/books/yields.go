package books

// yields: a member that states no demand and gives offers back untouched, without a
// filter that says for how long, lets all others go first for a while. Without that,
// frameworks that want nothing more would be offered for ever what others wait for,
// because their share stays the smallest. Its offers only come later: whatever nobody
// else takes is offered to it as before.
type yields struct {
	struck []*member
	until  [yieldMax + 1][]*member // by round modulo; who yields until then
}

// yieldMax bounds for how many rounds one yields; it doubles from 1.
const yieldMax = 64

// strike notes an untouched offer; Refuse takes it back.
func (b *Books) strike(m *member) {
	if !m.struck && m.demand == nil {
		m.struck = true
		b.yields.struck = append(b.yields.struck, m)
	}
}

// forgive lets the member go with the others again: it has launched or says that it is new.
func (b *Books) forgive(m *member) {
	m.strikes, m.struck = 0, false
	b.setYielding(m, false)
}

func (b *Books) setYielding(m *member, yielding bool) {
	if m.yielding == yielding {
		return
	}
	if !m.listed {
		m.yielding = yielding
		return
	}
	b.all.remove(m)
	m.yielding = yielding
	b.all.insert(m)
}

// yield makes those that were struck yield, and ends it for those whose time is over.
func (b *Books) yield() {
	y := &b.yields
	over := &y.until[b.round%(yieldMax+1)]
	for _, m := range *over {
		if m.role != nil && m.yieldsUntil == b.round {
			b.setYielding(m, false)
		}
	}
	clear(*over)
	*over = (*over)[:0]
	for _, m := range y.struck {
		if m.role == nil || !m.struck {
			continue
		}
		m.struck = false
		m.yieldsUntil = b.round + 1<<m.strikes
		if m.strikes < 6 {
			m.strikes++
		}
		at := &y.until[m.yieldsUntil%(yieldMax+1)]
		*at = append(*at, m)
		b.setYielding(m, true)
	}
	clear(y.struck)
	y.struck = y.struck[:0]
}
