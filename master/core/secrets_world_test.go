package core_test

import (
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/core/settings"
)

// verbOfSecrets is what operators and agents say of the secrets of tasks.
func (w *world) verbOfSecrets(verb string, args transcript.Line) bool {
	switch verb {
	case "secret-set": // secret-set eng/db [bytes=100]: the shell has sealed it
		size, _ := strconv.Atoi(args.Named["bytes"])
		w.request(core.Set{Setting: settings.Secret{ID: api.SecretID(args.Word(0)), Sealed: []byte(strings.Repeat("x", max(size, 1)))}})
	case "secret-rm":
		w.request(core.Set{Setting: settings.NoSecret{ID: api.SecretID(args.Word(0))}})
	case "need-secrets": // need-secrets a1 f1/t1: the agent is about to start it
		w.agentSays(w.agents[args.Word(0)], protocol.NeedSecrets{TaskRef: w.ref(args.Word(1))})
	case "alter": // alter a1 f1/t1 secrets=eng/other owner=eve: the agent says that the task names others
		if t := w.agents[args.Word(0)].tasks[w.ref(args.Word(1))]; t != nil {
			t.Task.Secrets, t.Task.Owner = secretsOf(args), args.Named["owner"]
		}
	default:
		return false
	}
	return true
}

// secretsOf reads secrets=eng/db,eng/key: those that a task names.
func secretsOf(args transcript.Line) []api.Secret {
	var secrets []api.Secret
	for _, id := range args.List("secrets") {
		secrets = append(secrets, api.Secret{ID: api.SecretID(id), File: api.SecretID(id).Name()})
	}
	return secrets
}

// sendSecrets says which of them an agent is sent; the shell opens them on the way.
func (w *world) sendSecrets(effect core.SendSecrets) {
	var names []string
	for _, secret := range effect.Secrets {
		names = append(names, string(secret.ID))
	}
	w.say("%s <- secrets of %s: %s", w.agentOn(effect.Conn).name, effect.Task, strings.Join(names, ", "))
}
