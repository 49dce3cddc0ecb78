package constraint_test

import (
	"testing"

	"github.com/tenderhq/tender/allocator/constraint"
)

// FuzzCompile: whatever a framework demands of agents, it is compiled and answers within its bounds, or is refused.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		`attributes["rack"] == "r1"`, `hostname.startsWith("db") && zone in ["a", "b"]`, `number(attributes["cores"]) > 8`,
		`attributes.exists(k, k.contains("x"))`, `true`, `1`, `"a".matches("(a+)+$")`, `[1,2,3].map(x, x * x)`, `(((`, ``,
	} {
		f.Add(text)
	}
	agent := constraint.Agent{Attributes: map[string]string{"rack": "r1", "cores": "16"}, Hostname: "db1", Region: "eu", Zone: "a", ID: "agent-1", Role: "web"}
	f.Fuzz(func(t *testing.T, text string) {
		program, err := constraint.Compile(text)
		if err != nil {
			return
		}
		holds, err := program.Holds(agent)
		if err != nil && holds {
			t.Fatalf("%q holds, and fails: %v", text, err)
		}
	})
}
