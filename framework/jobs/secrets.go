package jobs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Secret is one that masters keep, and how the task finds it. Exactly one of Env and File is set.
type Secret struct {
	// ID names it, as ROLE/NAME. The manager's framework must be in the role, or in one above it.
	ID api.SecretID `json:"id" toml:"id"`
	// Env is the variable that holds it.
	Env string `json:"env,omitempty" toml:"env"`
	// File is the name of a file that holds it, in the folder "secrets" of the task's sandbox, which is in memory.
	File string `json:"file,omitempty" toml:"file"`
}

// checkSecrets: each is named well, and no two of them, or of them and the environment, are found at one place.
func (t Task) checkSecrets(field string, found *Problems) {
	if len(t.Secrets) > api.SecretsPerTaskMax {
		found.say(field+".secrets", "there are %d; at most %d are allowed", len(t.Secrets), api.SecretsPerTaskMax)
		return
	}
	for i, secret := range t.Secrets {
		place, as := fmt.Sprintf("%s.secrets[%d]", field, i), ".file"
		if secret.Env != "" {
			as = ".env"
		}
		taken := func(other Secret) bool { return other.Env == secret.Env && other.File == secret.File }
		switch _, set := t.Env[secret.Env]; {
		case secret.ID.Check() != nil:
			found.say(place+".id", "%v", secret.ID.Check())
		case api.Secret(secret).Check() != nil:
			found.say(place+as, "%v", api.Secret(secret).Check())
		case strings.HasPrefix(secret.Env, "TENDER_"):
			found.say(place+as, "names that begin with TENDER_ are Tender's own")
		case set || slices.ContainsFunc(t.Secrets[:i], taken):
			found.say(place+as, "%s%s is set already; give each a name of its own", secret.Env, secret.File)
		}
	}
}
