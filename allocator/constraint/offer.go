package constraint

import "github.com/tenderhq/tender/api"

// OfOffer compiles an expression to a function that says whether it holds for the agent of an offer.
func OfOffer(expr string) (holds func(api.Offer) bool, err error) {
	program, err := Compile(expr)
	if err != nil {
		return nil, err
	}
	return func(o api.Offer) bool {
		is, _ := program.Holds(Agent{Attributes: o.Attributes, Hostname: o.Hostname, Region: o.Region, Zone: o.Zone, ID: string(o.Agent), Role: string(o.Role)})
		return is // where it can't be evaluated it does not hold
	}, nil
}
