package core_test

import (
	"strconv"
	"time"

	"github.com/tenderhq/tender/internal/testing/transcript"
	"github.com/tenderhq/tender/master/core"
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
	case "version": // of the next leader
		w.config.Version = args.Word(0)
	default:
		return false
	}
	return true
}
