package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stage is where a plan is played.
type Stage interface {
	// Pass lets time pass, or returns why the play can't go on.
	Pass(d time.Duration) error
	// Tell is called with what a fault does next: it begins, or ends.
	Tell(what string, f Fault)
	// Calm is called when a fault has ended, or can't end, and no other one is under way.
	Calm(f Fault) error
}

// Act is how a stage does one kind of fault.
type Act[S any] struct {
	Do          FaultKind
	Weight      int           // how often it is drawn for a plan whose faults overlap
	Least, Most time.Duration // how long it lasts; Most 0: mostly some seconds, sometimes a minute
	// Begin breaks something, and returns the function that repairs it; nil: there is nothing to repair.
	Begin Begin[S]
}

// Begin begins a fault on a stage.
type Begin[S any] = func(stage S, f Fault) (end func() error, err error)

// On makes a Begin that chooses the target when the fault begins. begin and end are called with it; end may be nil.
func On[S, M any](whom func(S, Fault) M, begin, end func(M)) Begin[S] {
	return func(stage S, f Fault) (func() error, error) {
		m := whom(stage, f)
		begin(m)
		if end == nil {
			return nil, nil
		}
		return func() error { end(m); return nil }, nil
	}
}

// Play carries out the plan. It returns when the last fault is over, or with the first error of the stage.
func Play[S Stage](plan Plan, stage S, acts []Act[S]) error {
	var steps []step
	broken := 0 // how many faults still have to be repaired
	for _, f := range plan.Faults {
		var mend func() error
		over := func() error {
			if broken--; broken > 0 {
				return nil
			}
			return stage.Calm(f)
		}
		steps = append(steps, step{f.At, f, func() (err error) {
			i := slices.IndexFunc(acts, func(act Act[S]) bool { return act.Do == f.Do })
			if i < 0 {
				return errors.New("this stage knows no such fault")
			}
			stage.Tell("begins", f)
			broken++
			if mend, err = acts[i].Begin(stage, f); err == nil && mend == nil {
				err = over()
			}
			return err
		}}, step{f.At + f.For, f, func() error {
			if mend == nil {
				return nil
			}
			stage.Tell("ends", f)
			if err := mend(); err != nil {
				return err
			}
			return over()
		}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	clock := time.Duration(0)
	for _, s := range steps {
		if s.at > clock {
			if err := stage.Pass(s.at - clock); err != nil {
				return err
			}
			clock = s.at
		}
		if err := s.do(); err != nil {
			return fmt.Errorf("%v: %w", s.of, err)
		}
	}
	return nil
}

// step is the beginning or the end of a fault.
type step struct {
	at time.Duration
	of Fault
	do func() error
}
