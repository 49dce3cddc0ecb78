package guard

import (
	"testing"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestNoSecretIsWrittenDown: what the protocol marks as one is left out of a line, and out of nothing else.
func TestNoSecretIsWrittenDown(t *testing.T) {
	request := &apiv1.RotateAuthorityRequest{Certificate: []byte("seen"), PrivateKey: []byte("hidden")}
	written, is := withoutSecrets(request).(*apiv1.RotateAuthorityRequest)
	if !is || string(written.GetCertificate()) != "seen" || len(written.GetPrivateKey()) > 0 {
		t.Errorf("what is written down of it is %v", written)
	}
	if string(request.GetPrivateKey()) != "hidden" {
		t.Error("the request itself has lost it")
	}
}
