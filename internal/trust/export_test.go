package trust

import "testing"

// RequestKeyOf returns the name of a pass's key.
func RequestKeyOf(t *testing.T, p *Pass) string {
	t.Helper()
	der, err := p.Request()
	if err != nil {
		t.Fatal(err)
	}
	key, err := RequestKey(der)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
