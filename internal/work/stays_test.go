package work_test

import (
	"testing"

	"github.com/tenderhq/tender/internal/work"
)

// TestWhoStays: the number of the rival that goes on, of work that ends and of a service.
func TestWhoStays(t *testing.T) {
	old := work.Rival{Wanted: true, Running: true, Ready: true, Number: 1}
	fresh := work.Rival{Wanted: true, Running: true, Ready: true, Number: 2}
	with := func(r work.Rival, change func(*work.Rival)) work.Rival { change(&r); return r }
	staged := with(fresh, func(r *work.Rival) { r.Running, r.Ready = false, false })
	ill := func(r work.Rival) work.Rival { return with(r, func(r *work.Rival) { r.Ready = false }) }
	other := with(old, func(r *work.Rival) { r.Wanted = false })
	for _, c := range []struct {
		name         string
		rivals       []work.Rival
		work, served int
	}{
		{"both run", []work.Rival{old, fresh}, 1, 2},
		{"the fresh one has not begun", []work.Rival{old, staged}, 1, 1},
		{"the old one is not healthy", []work.Rival{ill(old), fresh}, 1, 2},
		{"neither is healthy", []work.Rival{ill(old), ill(fresh)}, 1, 1},
		{"the old one runs another version", []work.Rival{other, staged}, 2, 2},
		{"three", []work.Rival{staged, old, with(old, func(r *work.Rival) { r.Number = 3 })}, 1, 3},
		{"alone", []work.Rival{staged}, 2, 2},
	} {
		if got := c.rivals[work.Stays(c.rivals, false)].Number; got != c.work {
			t.Errorf("%s: of work that ends %d stays, want %d", c.name, got, c.work)
		}
		if got := c.rivals[work.Stays(c.rivals, true)].Number; got != c.served {
			t.Errorf("%s: of a service %d stays, want %d", c.name, got, c.served)
		}
	}
}
