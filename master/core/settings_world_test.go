package core_test

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/core"
	"github.com/tenderhq/tender/master/registry"
)

// verbOfSettings changes what the next leader is told.
func (w *world) verbOfSettings(verb string, args transcript.Line) bool {
	switch verb {
	case "policy": // a story of another allocator says so first
		w.policy = policyNamed(args.Word(0))
		w.term.Number--
		w.lead()
	case "gone-after": // a story that has no seven days
		w.config.GoneAfter, _ = time.ParseDuration(args.Word(0))
		w.config.GoneAfterOf = nil
		for key, value := range args.Named {
			class := core.GoneAfter{Attribute: "rack", Value: key}
			class.After, _ = time.ParseDuration(value)
			w.config.GoneAfterOf = append(w.config.GoneAfterOf, class)
		}
		w.term.Number--
		w.lead()
	case "principals": // how much each may have
		w.config.Principals.Tasks, _ = strconv.Atoi(args.Named["tasks"])
		w.config.Principals.Shapes, _ = strconv.Atoi(args.Named["shapes"])
		w.config.Principals.Offers, _ = strconv.Atoi(args.Named["offers"])
		w.config.Principals.Filters, _ = strconv.Atoi(args.Named["filters"])
		w.term.Number--
		w.lead()
	case "token": // token t1 etl: the registrar has made it
		token := registry.Token{ID: args.Word(0), Kind: registry.FrameworkToken, Principal: args.Word(1), Hash: "hash of " + args.Word(0)}
		w.proposed = append(w.proposed, registry.Command{At: w.now, Change: registry.CreateToken{Token: token}})
		w.settle()
	case "tokens": // that let somebody in
		for _, id := range slices.Sorted(maps.Keys(w.registry.Tokens)) {
			if token := w.registry.Tokens[id]; token.Refusal(w.now) == "" {
				w.say("%s lets in %s", id, token.Principal)
			}
		}
	case "version": // of the next leader
		w.config.Version = args.Word(0)
	default:
		return false
	}
	return true
}
