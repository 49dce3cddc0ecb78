package trust

import "testing"

// RequestKeyOf names the key of a pass.
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
