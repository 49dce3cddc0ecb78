package chaos

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Draw draws a plan whose faults overlap. The same seed draws the same plan of the same acts.
func Draw[S any](seed uint64, length time.Duration, acts []Act[S]) Plan {
	random := rand.New(rand.NewPCG(seed, 0))
	plan := Plan{Seed: seed, Length: length}
	total := 0
	for _, act := range acts {
		total += act.Weight
	}
	mean := 500*time.Millisecond + time.Duration(random.Int64N(int64(6*time.Second)))
	for at := time.Duration(0); ; {
		at += time.Duration(random.Int64N(int64(2 * mean)))
		if at >= length || total == 0 {
			return plan
		}
		pick := random.IntN(total)
		i := slices.IndexFunc(acts, func(act Act[S]) bool { pick -= act.Weight; return pick < 0 })
		plan.Faults = append(plan.Faults, acts[i].draw(random, at))
	}
}

// long is the length from which on a fault is left out of a short run.
const long = 8 * time.Second

// Rounds draws count faults, one after the other: first every act in turn, then random ones. If count is too small for
// all acts, the plan has the first act and some of the others, and long ones only if there are no others.
func Rounds[S any](seed uint64, count int, acts []Act[S]) Plan {
	random := rand.New(rand.NewPCG(seed, 0))
	plan, acts := Plan{Seed: seed}, slices.Clone(acts)
	if count < len(acts) {
		if short := slices.DeleteFunc(slices.Clone(acts), func(act Act[S]) bool { return act.Least >= long }); len(short) > 0 {
			acts = short
		}
		random.Shuffle(len(acts)-1, func(i, j int) { acts[i+1], acts[j+1] = acts[j+1], acts[i+1] })
	}
	for i := 0; i < count && len(acts) > 0; i++ {
		act := acts[random.IntN(len(acts))]
		if i < len(acts) {
			act = acts[i]
		}
		fault := act.draw(random, plan.Length)
		plan.Faults, plan.Length = append(plan.Faults, fault), fault.At+fault.For
	}
	return plan
}

func (a Act[S]) draw(random *rand.Rand, at time.Duration) Fault {
	f := Fault{At: at, Do: a.Do, Whom: 1 + random.IntN(100), Whom2: 1 + random.IntN(100), For: outage(random)}
	if a.Most > 0 {
		f.For = a.Least + time.Duration(random.Int64N(int64(a.Most-a.Least)+1))
	}
	return f
}

// outage returns a duration that is mostly short, sometimes longer than a session timeout, rarely longer than a
// tombstone.
func outage(random *rand.Rand) time.Duration {
	most := 3 * time.Second
	switch n := random.IntN(10); {
	case n == 9:
		most = 50 * time.Second
	case n >= 6:
		most = 12 * time.Second
	}
	return time.Duration(random.Int64N(int64(most)))
}

// Shrink leaves out faults as long as the plan still fails. It is for stages on which the same plan always does the
// same.
func (p Plan) Shrink(fails func(Plan) bool) Plan {
	for size := (len(p.Faults) + 1) / 2; size >= 1; {
		smaller := false
		for from := 0; from < len(p.Faults); {
			fewer := p
			fewer.Faults = slices.Concat(p.Faults[:from], p.Faults[min(from+size, len(p.Faults)):])
			if fails(fewer) {
				p, smaller = fewer, true
			} else {
				from += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return p
}
