package forward_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/internal/forward"
	"github.com/tenderhq/tender/master/view"
)

// TestWhichManager: a call reaches the manager that it names, or the one of its job's role, or the usual one (R61).
func TestWhichManager(t *testing.T) {
	usual := view.Endpoint{Framework: "f1", Name: "jobs", Role: "default", Active: true}
	eng := view.Endpoint{Framework: "f2", Name: "eng-jobs", Role: "eng", Active: true}
	web := view.Endpoint{Framework: "f3", Name: "web-jobs", Role: "eng/web", Active: true}
	away := view.Endpoint{Framework: "f4", Name: "ops-jobs", Role: "ops"}
	older := view.Endpoint{Framework: "f0", Name: "jobs", Role: "default"}
	all := []view.Endpoint{web, away, eng, older, usual}
	for _, story := range []struct {
		of    []view.Endpoint
		named string
		role  api.Role
		found view.Endpoint
		kind  api.Kind
		why   string
	}{
		{of: all, found: usual},
		{of: all, named: "eng-jobs", found: eng},
		{of: all, named: "eng-jobs", role: "ops", found: eng},
		{of: all, named: "eng", found: eng},
		{of: all, named: "eng/etl", found: eng},
		{of: all, role: "eng/etl", found: eng},
		{of: all, role: "eng/web/shop", found: web},
		{of: all, role: "engineering", found: usual},
		{of: all, role: "sales", found: usual},
		{of: all, role: "default/x", found: usual},
		{of: []view.Endpoint{eng}, found: eng},
		{of: []view.Endpoint{eng}, role: "sales", found: eng},
		{of: all, named: "sales", kind: api.NotFound, why: `no job manager is called "sales"`},
		{of: all, role: "ops", kind: api.Unavailable, why: "away"},
		{of: []view.Endpoint{older}, kind: api.Unavailable, why: "away"},
		{of: []view.Endpoint{eng, web}, kind: api.Invalid, why: "--manager"},
		{of: nil, kind: api.NotFound, why: "no job manager runs"},
	} {
		found, err := forward.Choose(slices.Clone(story.of), story.named, story.role)
		if found != story.found || api.KindOf(err) != story.kind || err != nil && !strings.Contains(err.Error(), story.why) {
			t.Errorf("named %q, role %q: %v, %v; wanted %v, %v", story.named, story.role, found, err, story.found, story.kind)
		}
	}
}
