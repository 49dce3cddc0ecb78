// Package pack puts tasks into offers: first fit, best fit, spread over racks or zones,
// not too many of a kind in one place, ports out of ranges. It holds no state between
// calls and decides by its arguments alone.
//
//	answers, left := pack.Pack(offers, tasks, pack.Options{})
package pack

import (
	"maps"
	"math"
	"slices"

	"github.com/tenderhq/tender/api"
)

// Bin is an offer that is being filled.
type Bin struct {
	Offer api.Offer
	Left  api.Resources
	Tasks []api.Task
}

// Bins makes an empty bin of each offer.
func Bins(offers []api.Offer) []*Bin {
	bins := make([]*Bin, len(offers))
	for i, offer := range offers {
		bins[i] = &Bin{Offer: offer, Left: offer.Resources}
	}
	return bins
}

// Ask is what a task takes on an agent where its executor does not run yet. It is the
// resources to state in a demand: named ports of 0 are a number of ports in it. A task
// names its ports or leaves them open, not both.
func Ask(task api.Task) api.Resources {
	ask := task.Resources
	if n := len(openPorts(task)); n > 0 && len(ask.RangesOf("ports")) == 0 {
		ask = ask.Plus(api.NewResources(api.Resource{Label: api.Label{Name: "ports"}, Scalar: api.MilliOf(float64(n))}))
	}
	if task.Executor == nil {
		return ask
	}
	return ask.Plus(task.Executor.Resources)
}

// needs is what the task takes: its own resources, and those of its executor unless
// that one runs on the agent already or comes with a task in the bin.
func (b *Bin) needs(task api.Task) api.Resources {
	if task.Executor == nil {
		return task.Resources
	}
	for _, running := range b.Offer.Executors {
		if running == task.Executor.ID {
			return task.Resources
		}
	}
	for _, other := range b.Tasks {
		if other.ExecutorID() == task.Executor.ID {
			return task.Resources
		}
	}
	return Ask(task)
}

// Fits reports whether the task fits into what is left.
func (b *Bin) Fits(task api.Task) bool {
	task, ok := b.withPorts(task, openPorts(task))
	if !ok {
		return false
	}
	_, _, ok = b.Left.Carve(b.needs(task))
	return ok
}

// Put takes the task's needs out of what is left; false: it does not fit. A named port
// of the task that is 0 becomes one out of the offer's.
func (b *Bin) Put(task api.Task) bool {
	task, ok := b.withPorts(task, openPorts(task))
	if !ok {
		return false
	}
	_, rest, ok := b.Left.Carve(b.needs(task))
	if ok {
		b.Left = rest
		b.Tasks = append(b.Tasks, task)
	}
	return ok
}

// PutWithPorts puts the task with one port for each name, taken from what is left: they
// are added to its resources and its named ports.
func (b *Bin) PutWithPorts(task api.Task, names ...string) bool {
	task, ok := b.withPorts(task, names)
	return ok && b.Put(task)
}

// openPorts are the names of the ports that the task leaves to the offer.
func openPorts(task api.Task) (names []string) {
	for name, port := range task.Ports { // order: irrelevant because they are sorted
		if port == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// withPorts is the task with the lowest ports that are left, in the order of the names.
func (b *Bin) withPorts(task api.Task, names []string) (api.Task, bool) {
	if len(names) == 0 {
		return task, true
	}
	ports, ok := Ports(b.Left, len(names))
	if !ok {
		return task, false
	}
	task.Ports = maps.Clone(task.Ports)
	if task.Ports == nil {
		task.Ports = make(map[string]uint16, len(names))
	}
	ranges := make([]api.Range, len(names))
	for i, name := range names {
		task.Ports[name] = ports[i]
		ranges[i] = api.Range{Begin: uint64(ports[i]), End: uint64(ports[i])}
	}
	task.Resources = task.Resources.Plus(api.NewResources(api.Resource{
		Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(ranges...),
	}))
	return task, true
}

// Ports returns the n lowest ports of the resources that are neither revocable nor out
// of range; false: there are fewer.
func Ports(resources api.Resources, n int) ([]uint16, bool) {
	usable := resources.Filter(func(l api.Label) bool { return !l.Revocable }).RangesOf("ports")
	usable = usable.Intersect(api.NewRanges(api.Range{Begin: 1, End: math.MaxUint16}))
	var ports []uint16
	for _, port := range usable.First(n) {
		ports = append(ports, uint16(port))
	}
	return ports, len(ports) == n
}

// Answer launches the bin's tasks; a bin without tasks has none and says false.
func (b *Bin) Answer() (api.Answer, bool) {
	return api.Launch(b.Offer, b.Tasks...), len(b.Tasks) > 0
}

// Answers launches what the bins hold. Offers that stayed empty are not answered, which
// declines them.
func Answers(bins []*Bin) []api.Answer {
	var answers []api.Answer
	for _, bin := range bins {
		if answer, ok := bin.Answer(); ok {
			answers = append(answers, answer)
		}
	}
	return answers
}

// Options say where a task goes. The zero value is first fit.
type Options struct {
	// Rank orders the bins that have room for the task: the lowest wins, among equals
	// the first. nil: first fit. See [BestFit], [WorstFit], [Spread.Rank].
	Rank func(bin *Bin, task api.Task) float64
	// Allow refuses bins whatever their room; nil: none. See [Spread.AtMost].
	Allow func(bin *Bin, task api.Task) bool
	// Put is told of each placement; nil: nobody. See [Spread.Put].
	Put func(bin *Bin, task api.Task)
	// Ports are the names of ports that each task gets.
	Ports []string
	// Revocable gives tasks their cpus and mem out of what is revocable: what others leave
	// unused, and will have back (REVOKED). Without it no task takes any of that, unless its
	// own resources ask for it by label. Executors stay firm.
	Revocable bool
}

// Pack puts the tasks, in order, into the offers and returns the answers and the tasks
// for which there was no room.
func Pack(offers []api.Offer, tasks []api.Task, options Options) (answers []api.Answer, left []api.Task) {
	bins := Bins(offers)
	for _, task := range tasks {
		if options.Revocable {
			task.Resources = task.Resources.AsRevocable()
		}
		if !options.place(bins, task) {
			left = append(left, task)
		}
	}
	return Answers(bins), left
}

// place tries the bins from the best on.
func (o Options) place(bins []*Bin, task api.Task) bool {
	best, rank := -1, 0.0
	for i, bin := range bins {
		if o.Allow != nil && !o.Allow(bin, task) || !o.fits(bin, task) {
			continue
		}
		if o.Rank == nil {
			best = i
			break
		}
		if r := o.Rank(bin, task); best < 0 || r < rank {
			best, rank = i, r
		}
	}
	if best < 0 || !bins[best].PutWithPorts(task, o.Ports...) {
		return false
	}
	if o.Put != nil {
		o.Put(bins[best], task)
	}
	return true
}

func (o Options) fits(bin *Bin, task api.Task) bool {
	if len(o.Ports) == 0 {
		return bin.Fits(task)
	}
	trial := *bin
	trial.Tasks = trial.Tasks[:len(trial.Tasks):len(trial.Tasks)]
	return trial.PutWithPorts(task, o.Ports...)
}

// BestFit ranks first the bin that has the least left once the task is in, so that
// large tasks find room later: the rank is the largest share of any scalar that stays.
func BestFit(bin *Bin, task api.Task) float64 {
	_, rest, ok := bin.Left.Carve(bin.needs(task))
	if !ok {
		return math.Inf(+1)
	}
	most := 0.0
	for _, item := range bin.Offer.Resources.Items() {
		if item.Scalar > 0 {
			most = max(most, rest.Scalar(item.Name).Float()/bin.Offer.Resources.Scalar(item.Name).Float())
		}
	}
	return most
}

// WorstFit ranks first the bin that has the most left, so that load is even.
func WorstFit(bin *Bin, task api.Task) float64 { return -BestFit(bin, task) }
