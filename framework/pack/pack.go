// Package pack puts tasks into offers: first fit, best fit, spread over racks or zones,
// not too many of a kind in one place, ports out of ranges. It holds no state between
// calls and decides by its arguments alone.
//
//	answers, left := pack.Pack(offers, tasks, pack.Options{})
package pack

import (
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"github.com/tenderhq/tender/api"
)

// Bin is an offer that is being filled with tasks.
type Bin struct {
	Offer api.Offer
	Left  api.Resources
	Tasks []api.Task
}

// Bins makes an empty bin for each offer.
func Bins(offers []api.Offer) []*Bin {
	bins := make([]*Bin, len(offers))
	for i, offer := range offers {
		bins[i] = &Bin{Offer: offer, Left: offer.Resources}
	}
	return bins
}

// Ask returns what a task takes on an agent where its executor does not run yet: its own resources and those of the
// executor. State these resources in a demand. Named ports of 0 are counted in it as that many ports. A task must
// either name its ports or leave them open, not both.
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

// needs returns what the task takes of the bin: its own resources, and those of its executor unless the executor runs
// on the agent already or comes with another task in the bin.
func (b *Bin) needs(task api.Task) api.Resources {
	if task.Executor == nil || slices.Contains(b.Offer.Executors, task.Executor.ID) ||
		slices.ContainsFunc(b.Tasks, func(other api.Task) bool { return other.ExecutorID() == task.Executor.ID }) {
		return task.Resources
	}
	return Ask(task)
}

// Fits reports whether the task fits into what is left of the bin.
func (b *Bin) Fits(task api.Task) bool {
	task, ok := b.withPorts(task, openPorts(task))
	if !ok {
		return false
	}
	_, _, ok = b.Left.Carve(b.needs(task))
	return ok
}

// Put puts the task into the bin; false: it does not fit. Each named port of the task that is 0 becomes one of the
// offer's ports.
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

// PutWithPorts puts the task into the bin with one port for each name, out of what is left. The ports are added to the
// task's resources and to its named ports.
func (b *Bin) PutWithPorts(task api.Task, names ...string) bool {
	task, ok := b.withPorts(task, names)
	return ok && b.Put(task)
}

// openPorts returns the names of the ports that the task leaves open (0).
func openPorts(task api.Task) (names []string) {
	for name, port := range task.Ports { // order: irrelevant because they are sorted
		if port == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// withPorts returns the task with ports that are left, given to the names in their order; false: there are too few.
func (b *Bin) withPorts(task api.Task, names []string) (api.Task, bool) {
	if len(names) == 0 {
		return task, true
	}
	ports := b.ports(task, len(names))
	if len(ports) < len(names) {
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

// ports returns n ports that are left and not the task's already, or fewer if there are no more. It leaves out revocable
// ones and numbers that are no port.
//
// They follow each other from a place that the offer's ID decides. If it were the lowest ones, a task that is tried again
// would be told the port again that has just failed, or that the program before it has not given back yet.
func (b *Bin) ports(task api.Task, n int) []uint16 {
	left := usablePorts(b.Left).Minus(task.Resources.RangesOf("ports"))
	upper := left
	if all := usablePorts(b.Offer.Resources); len(all) > 0 {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(b.Offer.ID)) // it never fails
		upper = left.Minus(all.Lowest(hash.Sum64() % all.Len()))
	}
	var ports []uint16
	for _, port := range append(upper.First(n), left.Minus(upper).First(n)...) {
		ports = append(ports, uint16(port))
	}
	return ports[:min(n, len(ports))]
}

func usablePorts(resources api.Resources) api.Ranges {
	usable := resources.Filter(func(l api.Label) bool { return !l.Revocable }).RangesOf("ports")
	return usable.Intersect(api.NewRanges(api.Range{Begin: 1, End: math.MaxUint16}))
}

// Answer returns the answer that launches the bin's tasks; false: the bin has no tasks.
func (b *Bin) Answer() (api.Answer, bool) {
	return api.Launch(b.Offer, b.Tasks...), len(b.Tasks) > 0
}

// Answers returns the answers that launch the tasks of the bins. Offers whose bins are empty get no answer, which
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

// Options say where Pack puts a task. The zero value is first fit.
type Options struct {
	// Rank rates the bins that have room for the task: the lowest rank wins, and the first bin among equals. nil: first
	// fit. See [BestFit], [WorstFit], [Spread.Rank].
	Rank func(bin *Bin, task api.Task) float64
	// Allow says whether the task may go into the bin, apart from room; nil: always. See [Spread.AtMost].
	Allow func(bin *Bin, task api.Task) bool
	// Put is called after each placement; nil: not at all. See [Spread.Put].
	Put func(bin *Bin, task api.Task)
	// Ports are the names of the ports that each task gets.
	Ports []string
	// Revocable gives tasks revocable cpus and mem: those that other tasks leave unused and may need back, which ends
	// the task (REVOKED). Without it a task takes revocable resources only if its own resources ask for them by label.
	// Executors never get any.
	Revocable bool
}

// Pack puts the tasks, in their order, into the offers. It returns the answers, and the tasks for which there was no
// room.
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

// place puts the task into the best bin that takes it.
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

// BestFit is a Rank that prefers the bin with the least left once the task is in it, so that large tasks find room
// later. The rank is the largest share of any scalar resource that would be left.
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

// WorstFit is a Rank that prefers the bin with the most left, so that load is even.
func WorstFit(bin *Bin, task api.Task) float64 { return -BestFit(bin, task) }
