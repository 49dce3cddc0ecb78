package forward

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/view"
)

const op = "jobs.forward"

var (
	errNoManager = errors.New("no job manager runs; start one with 'tender jobs'")
	errAway      = errors.New("the job manager is away; its jobs go on when one takes over ('tender jobs' runs one)")
	errWhich     = errors.New("several job managers run and none of them is called \"jobs\"; name one: --manager NAME")
)

// Choose returns the job manager that a call is for: the one that the call names, by the name of its framework or by a
// role; else the one for the role of the call's job, "": it has none; else the one called "jobs", or the only one there
// is. It returns an error if this one is not active. (R61)
func Choose(managers []view.Endpoint, named string, role api.Role) (view.Endpoint, error) {
	slices.SortFunc(managers, func(a, b view.Endpoint) int { // of several that would do, the first is taken
		return cmp.Or(compareIs(a.Name == JobsEndpoint, b.Name == JobsEndpoint), cmp.Compare(a.Name, b.Name), compareIs(a.Active, b.Active),
			cmp.Compare(a.Framework, b.Framework))
	})
	var found *view.Endpoint
	switch {
	case len(managers) == 0:
		return view.Endpoint{}, api.E(op, api.NotFound, "", errNoManager)
	case named != "":
		if found = called(managers, named); found == nil {
			found = nearest(managers, api.Role(named))
		}
		if found == nil {
			return view.Endpoint{}, api.E(op, api.NotFound, named,
				fmt.Errorf("no job manager is called %q, and none runs in such a role or in one above it", named))
		}
	case role != "":
		found = nearest(managers, role)
	}
	if found == nil {
		found = called(managers, JobsEndpoint)
	}
	switch {
	case found == nil && managers[0].Name != managers[len(managers)-1].Name:
		return view.Endpoint{}, api.E(op, api.Invalid, "", errWhich)
	case found == nil:
		found = &managers[0]
	}
	if !found.Active {
		return view.Endpoint{}, api.E(op, api.Unavailable, found.Name, errAway)
	}
	return *found, nil
}

// compareIs orders what is so before what is not.
func compareIs(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func called(managers []view.Endpoint, name string) *view.Endpoint {
	if i := slices.IndexFunc(managers, func(one view.Endpoint) bool { return one.Name == name }); i >= 0 {
		return &managers[i]
	}
	return nil
}

// nearest returns the manager whose role is this one or the nearest above it.
func nearest(managers []view.Endpoint, role api.Role) (found *view.Endpoint) {
	for i, one := range managers {
		if one.Role != "" && role.Within(one.Role) && (found == nil || len(one.Role) > len(found.Role)) {
			found = &managers[i]
		}
	}
	return found
}
