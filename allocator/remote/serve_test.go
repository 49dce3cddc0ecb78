package remote

import (
	"net"
	"strings"
	"testing"

	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/api"
)

// TestServeRefuses: a wrong config is refused. Above all, without TLS the allocator does not serve other machines
// unless the config says insecure.
func TestServeRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for want, config := range map[string]ServeConfig{
		"name the policy and the listener":              {Listener: listener},
		"it can be reached by others and there is no":   {Policy: fairshare.New, Listener: listener},
		"insecure and a token exclude each other":       {Policy: fairshare.New, Listener: listener, Token: "x", Insecure: true},
		"needs the addresses of some masters":           {Policy: fairshare.New, Listener: listener, Token: "x"},
		"this is no token; one reads tender1_DIGEST_ID": {Policy: fairshare.New, Listener: listener, Token: "x", Masters: []string{"127.0.0.1:1"}},
	} {
		if err := Serve(t.Context(), config); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
