package intake

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// TestFairServesByWeight (R34): two senders that always have something waiting get half each by weight. A sender that
// has had nothing yet goes before those that have much waiting, in however many streams.
func TestFairServesByWeight(t *testing.T) {
	var f fair[string]
	heavy, light, late := NewSender(), NewSender(), NewSender()
	for range 100 {
		f.push(heavy, 64<<10, "heavy")
	}
	for range 1000 {
		f.push(light, 1<<10, "light")
	}
	got := map[string]int{}
	for range 650 {
		item, _ := f.pop()
		got[item]++
	}
	if got["heavy"] < 9 || got["heavy"] > 11 {
		t.Errorf("%d KiB of the heavy one beside %d KiB of the light one", 64*got["heavy"], got["light"])
	}
	f.push(late, 64<<10, "late")
	for i := range 3 {
		if item, _ := f.pop(); item == "late" {
			break
		} else if i == 2 {
			t.Error("who came late and had nothing yet waits behind those who have had much")
		}
	}
	for _, waits := f.pop(); waits; _, waits = f.pop() {
	}
	if len(f.had) != 0 || f.now != 0 {
		t.Errorf("nothing waits, and %d senders are remembered", len(f.had))
	}
}

// TestFairForgets: a sender that has had all that it put is not remembered for ever, though others always wait.
func TestFairForgets(t *testing.T) {
	var f fair[int]
	f.push(NewSender(), 1, -1)
	for i := range 10_000 {
		f.push(NewSender(), 1, i)
		f.pop()
		if len(f.had) > 4*knownMin {
			t.Fatalf("%d senders are remembered for %d items", len(f.had), len(f.items))
		}
	}
}

// TestLanesServeByWeight (R34): a connection gains nothing by opening many streams, nor by large messages.
func TestLanesServeByWeight(t *testing.T) {
	n, ctx, greedy := NewLanes[int](), t.Context(), NewSender()
	for range 100 {
		by := n.Front.Inlet(greedy)
		for range 2 {
			by.Put(ctx, nil, 1, 60<<10)
		}
	}
	n.Next() // one of them is on its way
	honest := n.Front.Inlet(NewSender())
	for range 10 {
		honest.Put(ctx, nil, 7, 1<<10)
	}
	for i, came := 0, 0; came < 10; i++ {
		if next, _ := n.Next(); next == 7 {
			came++
		}
		if i > 12 {
			t.Fatalf("%d of 10 honest calls came with %d greedy ones", came, i-came)
		}
	}
}

// TestDeskHasFewPlaces (R34): only a few large messages are read at a time, in turns of their senders. Small ones need
// no place. A sender that gives up leaves no place taken.
func TestDeskHasFewPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Desk{places: NewBudget(1)}
		greedy, honest := NewSender(), NewSender()
		var order []string
		hold := make(chan struct{})
		read := func(by *Sender, name string) {
			go d.During(t.Context(), by, 64<<10, func() { order = append(order, name); <-hold })
			synctest.Wait()
		}
		for range 4 {
			read(greedy, "greedy")
		}
		read(honest, "honest")
		small := false
		if !d.During(t.Context(), greedy, lightWeight, func() { small = true }) || !small {
			t.Error("a small message waits")
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan bool)
		go func() { gone <- d.During(ctx, honest, 64<<10, func() { t.Error("it has given up") }) }()
		synctest.Wait()
		cancel()
		if <-gone {
			t.Error("who gave up was served")
		}
		for range 5 {
			hold <- struct{}{}
			synctest.Wait()
		}
		if len(order) != 5 || order[1] != "greedy" && order[1] != "honest" || order[2] != "honest" && order[1] != "honest" {
			t.Errorf("they came as %v", order)
		}
		if d.places.left != 1 || len(d.places.waiters.items) != 0 {
			t.Errorf("nobody reads, and %d places are free", d.places.left)
		}
	})
}

// TestDesksRest (R34): however many wait, a place works for a part of the time, as many look or send much; short work adds
// up to a rest, and who waits alone waits no longer than that.
func TestDesksRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewReads()
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { d.During(t.Context(), NewSender(), ReadWeight, func() { <-time.After(time.Millisecond / 2) }) })
		}
		all.Wait()
		if took, most := time.Since(began), 100*(1+readsRest)*time.Millisecond/2; took > most || took < most-2*time.Millisecond {
			t.Errorf("100 reads of half a millisecond took %v, with a rest of %d times as long it is %v", took, readsRest, most)
		}
		<-time.After(restMax)
		began = time.Now()
		if d.During(t.Context(), NewSender(), ReadWeight, func() {}); time.Since(began) != 0 {
			t.Errorf("nobody waits, and one read took %v", time.Since(began))
		}
		if d.places.left != 1 {
			t.Errorf("%d places are free", d.places.left)
		}
	})
}

// TestOnePartIsReadAtATime (R34): of a message with tasks without number, no more than a part is read before the
// loop has taken the part before; what is too much is refused before anything is read.
func TestOnePartIsReadAtATime(t *testing.T) {
	tasks := func(n int) *apiv1.SchedulerCall {
		all := make([]*apiv1.Task, n)
		for i := range all {
			all[i] = &apiv1.Task{}
		}
		return &apiv1.SchedulerCall{Number: 1, Call: &apiv1.SchedulerCall_Accept{Accept: &apiv1.Accept{
			OfferIds: []string{"offer-1-1"}, Operations: []*apiv1.Operation{{Kind: apiv1.OperationKind_LAUNCH, Tasks: all}}}}}
	}
	taken, weight := 0, 0
	var read []int
	part := func(before int, data []byte) ([]protocol.NumberedCall, error) {
		if taken != before {
			t.Errorf("%d calls are read and %d are taken", before, taken)
		}
		calls, err := schedulerCalls(before, data)
		read = append(read, len(calls))
		return calls, err
	}
	take := func(calls []protocol.NumberedCall, w int) *api.Error {
		taken, weight = taken+len(calls), weight+w
		return nil
	}
	of := func(calls ...*apiv1.SchedulerCall) *api.Error {
		data, err := proto.Marshal(&apiv1.SchedulerCalls{Calls: calls})
		if err != nil {
			t.Fatal(err)
		}
		frame := new(wire.Frame)
		if err := wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, frame); err != nil {
			t.Fatal(err)
		}
		how := Calls[protocol.NumberedCall]{(*wire.Frame).SchedulerParts, part, schedulerPrice}
		return how.readParts(t.Context(), NewDesk(), NewSender(), frame, take)
	}
	if err := of(tasks(4000), tasks(4000), tasks(4000), tasks(1), tasks(1)); err != nil || taken != 5 {
		t.Fatalf("%d calls were taken: %v", taken, err)
	}
	if len(read) != 4 || weight < 3*4000*200 {
		t.Errorf("they were read as %v, and weigh %d", read, weight)
	}
	taken, read = 0, nil
	many := make([]*apiv1.SchedulerCall, 17)
	for i := range many {
		many[i] = tasks(4000)
	}
	if err := of(many...); err == nil || err.Kind != api.Limit || len(read) != 0 {
		t.Errorf("68,000 tasks in a message were refused with %v, after %v were read", err, read)
	}
}
