package jobs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Secret names a secret that the masters keep, and says how the task finds it. Exactly one of Env and File is set.
type Secret struct {
	// ID is the name of the secret, as ROLE/NAME. The manager's framework must be in this role, or in one above it.
	ID api.SecretID `json:"id" toml:"id" rule:"required"`
	// Env is the environment variable that holds the secret.
	Env string `json:"env,omitempty" toml:"env"`
	// File is the name of the file that holds the secret, in the folder "secrets" of the task's sandbox; that folder is
	// in memory.
	File string `json:"file,omitempty" toml:"file"`
}

// checkSecrets checks each secret, and that no two of them have the same variable or file. A variable must also not be
// set in Env.
func (t Task) checkSecrets(field string, found *Problems) {
	if len(t.Secrets) > api.SecretsPerTaskMax {
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
