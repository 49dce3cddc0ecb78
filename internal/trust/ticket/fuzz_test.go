package ticket_test

import (
	"testing"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/ticket"
)

// FuzzRead: nobody makes a ticket but a master: whatever is shown to an agent is refused, unless it is the very word
// that a master has signed.
func FuzzRead(f *testing.F) {
	authority, err := trust.NewKey().Authority()
	if err != nil {
		f.Fatal(err)
	}
	pass := func(kind trust.Kind, name string) *trust.Pass {
		pass, err := authority.Issue(trust.Identity{Kind: kind, Name: name}, now)
		if err != nil {
			f.Fatal(err)
		}
		return pass
	}
	agent := pass(trust.Agent, "a1")
	one := cluster{authority}.ticket()
	word, err := ticket.Sign(pass(trust.Master, "m1"), one, now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(word)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, shown string) {
		if read, err := ticket.Read(agent, shown, now); err == nil && read.Check(one) != nil {
			t.Fatalf("%q is read as %+v", shown, read)
		}
	})
}
