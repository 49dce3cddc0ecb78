package entry_test

import (
	"os"
	"testing"

	"github.com/tenderhq/tender/agent/walls/entry"
)

// TestNobodyBecomesRootByItsNumber: a task that may ask for every user but root does not get root by the number 0.
func TestNobodyBecomesRootByItsNumber(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only an agent of root can start tasks as root")
	}
	for _, users := range []entry.Users{{Default: entry.Dynamic, Allowed: []string{"*"}}, {Default: "nobody", Allowed: []string{"*", "root"}}} {
		if found, err := users.Find("0"); err == nil {
			t.Errorf("with %+v, 0 is %+v", users, found)
		}
	}
	if found, err := (entry.Users{Default: "root"}).Find("root"); err != nil || !found.IsRoot() {
		t.Errorf("root, who is allowed by that name, is %+v, %v", found, err)
	}
}
