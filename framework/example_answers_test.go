package framework_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
)

// picky wants an agent with an SSD, keeps offers of others for a while, and wants no agent that will soon be
// maintained.
type picky struct{ started bool }

func (p *picky) Offers(_ context.Context, offers []api.Offer) []api.Answer {
	var answers []api.Answer
	for _, offer := range offers {
		switch {
		case offer.Unavailable != nil:
			answers = append(answers, api.Decline(offer, time.Hour)) // not this agent for an hour
		case offer.Attributes["disk"] != "ssd":
			answers = append(answers, api.Keep(offer)) // answered later, by Client.Answer
		case !p.started:
			p.started = true
			answers = append(answers, api.Launch(offer, api.Task{ // what is left over is declined
				ID: "index-1", Resources: api.Scalars(1, 512), Command: &api.Command{Shell: "make index"},
			}))
		}
	}
	return answers // an offer without an answer is declined for five seconds
}

func (p *picky) Update(context.Context, api.Status) error { return nil }

// An offer is answered with a launch, kept for later, or declined: by an answer that says
// for how long, or by none.
func ExampleScheduler() {
	var scheduler framework.Scheduler = &picky{}
	answers := scheduler.Offers(context.Background(), []api.Offer{
		{ID: "offer-1-1", Attributes: map[string]string{"disk": "hdd"}},
		{ID: "offer-1-2", Unavailable: &api.Window{Duration: time.Hour}},
		{ID: "offer-1-3", Attributes: map[string]string{"disk": "ssd"}},
		{ID: "offer-1-4", Attributes: map[string]string{"disk": "ssd"}},
	})
	for _, answer := range answers {
		fmt.Print(answer.Offers[0])
		switch {
		case answer.Keep:
			fmt.Println(" is kept")
		case len(answer.Operations) == 0:
			fmt.Println(" is declined for", answer.Filter.For())
		default:
			fmt.Println(" launches", answer.Operations[0].Tasks[0].ID)
		}
	}
	// Output:
	// offer-1-1 is kept
	// offer-1-2 is declined for 1h0m0s
	// offer-1-3 launches index-1
}
