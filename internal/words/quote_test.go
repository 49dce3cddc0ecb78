package words

import "testing"

// TestQuote: what a shell would take for more than one word, or for none, is quoted.
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"agent-1": "agent-1", "rack=r1": "rack=r1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "<b>": "'<b>'",
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q becomes %s instead of %s", word, got, want)
		}
	}
}
