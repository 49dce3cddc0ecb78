package frameworktest

// Member is what has a place on the network: a [Master], an [Agent] or a [Framework].
type Member interface{ place() string }

func (m *Master) place() string    { return m.host }
func (a *Agent) place() string     { return a.host.name }
func (f *Framework) place() string { return f.host }

// Partition cuts the network in two: no member of the one side reaches one of the other, nor the other way.
// Members of neither side reach both, and so does the story itself. Mend ends it, as does Join.
func (h *Handle) Partition(one, other []Member) { eachPair(one, other, h.network.Cut) }

// Join ends the Partition of the same members.
func (h *Handle) Join(one, other []Member) { eachPair(one, other, h.network.Heal) }

func eachPair(one, other []Member, do func(a, b string)) {
	for _, a := range one {
		for _, b := range other {
			do(a.place(), b.place())
		}
	}
}

// Masters lists them all, running or not.
func (h *Handle) Masters() []*Master { return append([]*Master(nil), h.masters...) }

// Agents lists them all, running or not.
func (h *Handle) Agents() []*Agent { return append([]*Agent(nil), h.agents...) }
