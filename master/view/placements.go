package view

import (
	"time"

	"github.com/tenderhq/tender/api"
)

// Placements are how the tasks of a framework came to their agents since this leader
// began: what waiting for locality has brought and cost.
type Placements struct {
	Node, Near, Any int
	Waited          time.Duration // summed over launches
	Longest         time.Duration
	Idle            time.Duration // of room that was let pass, summed over the tasks that it would have held
}

// placementWaitMax bounds what one launch adds, so that no sum overflows: more counts as
// this much.
const placementWaitMax = 24 * time.Hour

// Tasks is how many said where they are.
func (p Placements) Tasks() int { return p.Node + p.Near + p.Any }

// Count adds what one launch says.
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
