package view

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Placements sums up how the tasks of a framework were placed since this leader began: what waiting for locality has
// brought and cost.
type Placements struct {
	Node, Near, Any int
	Waited          time.Duration // summed over launches
	Longest         time.Duration
	Idle            time.Duration // time for which room was let pass, summed over the tasks that it would have held
}

// placementWaitMax bounds what one launch adds, so that no sum overflows. Longer times count as this.
const placementWaitMax = 24 * time.Hour

// Tasks returns how many tasks have said how they were placed.
func (p Placements) Tasks() int { return p.Node + p.Near + p.Any }

// Count adds what one launch says about its placement.
func (p *Placements) Count(placement api.Placement) {
	switch placement.Level {
	case api.PlacedNode:
		p.Node++
	case api.PlacedNear:
		p.Near++
	case api.PlacedAny:
		p.Any++
	default:
		return
	}
	waited := min(max(placement.Waited, 0), placementWaitMax)
	p.Waited += waited
	p.Longest = max(p.Longest, waited)
	p.Idle += min(max(placement.Idle, 0), placementWaitMax)
}
