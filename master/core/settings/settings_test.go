package settings_test

import (
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/core/secrets"
	"github.com/tenderhq/tender/master/core/settings"
	"github.com/tenderhq/tender/master/registry"
)

func cpus(n float64) *api.Resources {
	some := api.NewResources(api.Resource{Label: api.Label{Name: "cpus"}, Scalar: api.MilliOf(n)})
	return &some
}

// TestAsk: whether a change is asked of the registry depends on the registry and on the caller.
func TestAsk(t *testing.T) {
	weight, tiny := 0.0, 1e-300
	state := &registry.State{
		Agents:     map[api.AgentID]registry.Agent{"agent-1": {Agent: api.Agent{Resources: *cpus(4)}}},
		Principals: map[string]registry.Principal{"ann": {Grants: []rights.Grant{{Verb: rights.Admin}}}},
	}
	web := rights.Scope{Who: "bob", Grants: []rights.Grant{{Verb: rights.Admin, Role: "web"}}}
	admin := rights.Grant{Verb: rights.Admin}
	all := rights.All()
	for name, test := range map[string]struct {
		state   *registry.State
		unkept  secrets.Unkept
		setting settings.Setting
		by      rights.Scope
		want    api.Kind // 0: the registry is asked
	}{
		"a role":                      {state, "", settings.Role{Role: "web", Guarantee: cpus(4)}, all, 0},
		"a role below one's own":      {state, "", settings.Role{Role: "web/a", Limit: cpus(1)}, web, 0},
		"another role":                {state, "", settings.Role{Role: "batch", Limit: cpus(1)}, web, api.Denied},
		"no weight":                   {state, "", settings.Role{Role: "web", Weight: &weight}, all, api.Invalid},
		"a weight of nearly nothing":  {state, "", settings.Role{Role: "web", Weight: &tiny}, all, api.Invalid},
		"guarantee above limit":       {state, "", settings.Role{Role: "web", Guarantee: cpus(2), Limit: cpus(1)}, all, api.Invalid},
		"more than the agents have":   {state, "", settings.Role{Role: "web", Guarantee: cpus(5)}, all, api.Limit},
		"the same by force":           {state, "", settings.Role{Role: "web", Guarantee: cpus(5), Force: true}, all, 0},
		"a grant":                     {state, "", settings.Grant{Principal: "bob", Grant: admin}, all, 0},
		"more than one's own":         {state, "", settings.Grant{Principal: "eve", Grant: admin}, web, api.Denied},
		"taken back":                  {state, "", settings.Take{Principal: "bob", Grant: admin}, all, 0},
		"taken from himself":          {state, "", settings.Take{Principal: "ann", Grant: admin}, rights.Scope{Who: "ann", Everything: true}, api.Invalid},
		"revoked":                     {state, "", settings.Revoke{Principal: "ann"}, all, 0},
		"revoked by who has less":     {state, "", settings.Revoke{Principal: "ann"}, web, api.Denied},
		"one that has nothing":        {state, "", settings.Revoke{Principal: "eve"}, web, api.Denied},
		"himself":                     {state, "", settings.Revoke{Principal: "bob"}, web, api.Invalid},
		"a secret":                    {state, secrets.Kept, settings.Secret{ID: "web/key"}, web, 0},
		"a secret of another role":    {state, secrets.Kept, settings.Secret{ID: "batch/key"}, web, api.Denied},
		"a secret that is not kept":   {state, secrets.NoKey, settings.Secret{ID: "web/key"}, web, api.Unsupported},
		"a secret without a role":     {state, secrets.Kept, settings.Secret{ID: "key"}, all, api.Invalid},
		"no secret, and none is kept": {state, secrets.NoKey, settings.NoSecret{ID: "web/key"}, web, 0},
	} {
		question, err := test.setting.Ask(settings.Leader{Registry: test.state, Unkept: test.unkept}, test.by)
		kind := api.Kind(0)
		if err != nil {
			kind = err.Kind
		}
		switch {
		case kind != test.want:
			t.Errorf("%s: %v", name, err)
		case err == nil && (question.Change == nil || question.Op == "" || question.Subject == "" || strings.TrimSpace(question.Done) == ""):
			t.Errorf("%s: the registry is asked %+v", name, question)
		}
	}
}
