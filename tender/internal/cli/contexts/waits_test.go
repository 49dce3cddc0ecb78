package contexts_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tenderhq/tender/tender/internal/cli/contexts"
)

// TestATokenWithoutAMaster: whoever has only TENDER_TOKEN is told at once that no master is named, and which one is
// asked instead.
func TestATokenWithoutAMaster(t *testing.T) {
	const token = "tender1_f6jy2hzo5ulcjdug4oqymeqtanxjyffy4ion36k6kplq7kpbbbcq_svvwvsw4_me4zcfpqtklt3245emyyokv4o7"
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		_, err := contexts.Find(ctx, contexts.Wish{
			Master: "127.0.0.1:5060",
			Lookup: func(name string) (string, bool) { return token, name == contexts.TokenVariable },
			Dial:   func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") },
			Waits: func(err error) {
				told = append(told, err.Error())
				cancel()
			},
		})
		if err == nil || len(told) != 1 || !strings.Contains(told[0], "no master is named (--master HOST:PORT, or TENDER_MASTER)") ||
			!strings.Contains(told[0], "127.0.0.1:5060") {
			t.Errorf("it is told %q, and then %v", told, err)
		}
	})
}
