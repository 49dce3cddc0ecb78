package cli_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestWhatIsAnsweredAboutTrustIsKept: what a lone master has answered about principals, tokens, secrets, authorities and
// roles is there when it was killed right behind the answer (R53). The leader's core, which the transcripts of R53 are
// about, has no part in tokens and authorities.
func TestWhatIsAnsweredAboutTrustIsKept(t *testing.T) {
	t.Parallel()
	c := startTrusted(t)
	value := c.folder("value")
	if err := os.WriteFile(value, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	token := func() string { // that of tom
		for line := range strings.Lines(c.must("token", "list")) {
			if strings.Contains(line, "tom") {
				return strings.Fields(line)[0]
			}
		}
		t.Fatal("tom has no token")
		return ""
	}
	args := c.procs[0].cmd.Args[1:]
	for _, p := range []struct {
		ask, look, want string
		gone            bool // it is not there any more
	}{
		{ask: "grant eve view", look: "get principals", want: "eve"},
		{ask: "revoke eve --force --why left", look: "describe principal eve", want: "left"},
		{ask: "token create operator --principal tom", look: "token list", want: "tom"},
		{ask: "token revoke TOKEN", look: "token list", want: "revoked"},
		{ask: "secret set eng/db --value-file " + value, look: "secret list", want: "eng/db"},
		{ask: "secret rm eng/db", look: "secret list", want: "eng/db", gone: true},
		{ask: "weight eng 7", look: "get roles", want: "eng"},
		{ask: "ca rotate --overlap 2h", look: "ca status", want: "Former:"},
	} {
		ask := strings.Fields(p.ask)
		if ask[0] == "token" && ask[1] == "revoke" {
			ask[2] = token()
		}
		c.must(ask...)
		c.procs[0].signal(syscall.SIGKILL)
		c.procs[0].wait()
		c.procs[0] = start(t, c.env, args...)
		var said string
		until(t, "a leader after "+p.ask, func() bool {
			stdout, _, code := tender(t, c.env, strings.Fields(p.look)...)
			said = stdout
			return code == 0
		})
		if strings.Contains(said, p.want) == p.gone {
			t.Errorf("behind %q %s says:\n%s", p.ask, p.look, said)
		}
	}
}
