package frameworktest

// Member is a part of the cluster with a place on the network: a [Master], an [Agent] or a [Framework].
type Member interface{ hostName() string }

func (m *Master) hostName() string    { return m.host }
func (a *Agent) hostName() string     { return a.host.name }
func (f *Framework) hostName() string { return f.host }

// Partition cuts the network in two: members of one side and members of the other can't reach each other. Members of
// neither side, and the story itself, reach both. Join and Mend undo it.
func (h *Handle) Partition(these, those []Member) { eachPair(these, those, h.network.Cut) }

// Join undoes the Partition of the same members.
func (h *Handle) Join(these, those []Member) { eachPair(these, those, h.network.Heal) }

func eachPair(these, those []Member, do func(a, b string)) {
	for _, a := range these {
		for _, b := range those {
			do(a.hostName(), b.hostName())
		}
	}
}

// Masters returns all masters, running or not.
func (h *Handle) Masters() []*Master { return append([]*Master(nil), h.masters...) }

// Agents returns all agents, running or not.
func (h *Handle) Agents() []*Agent { return append([]*Agent(nil), h.agents...) }
