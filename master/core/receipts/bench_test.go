package receipts_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/receipts"
)

// BenchmarkSign is what a launch costs more with a receipt.
func BenchmarkSign(b *testing.B) {
	key := make([]byte, 32)
	launch := receipts.Launch{Framework: "framework-12", Task: "batch-000123", Agent: "agent-1234", Term: api.Term{Epoch: 1, Number: 2},
		Executor: api.CommandExecutor, Role: api.DefaultRole, Resources: api.Scalars(1, 512)}
	for b.Loop() {
		launch.Number++
		receipts.Sign(key, launch)
	}
}
