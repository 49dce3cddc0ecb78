package agent

import (
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/tenderhq/tender/agent/proc"
)

func loopback(t *testing.T) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func port(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }

func itoa(n int) string { return strconv.Itoa(n) }

func processes(t *testing.T) []proc.Stat {
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func get(t *testing.T, url string) *http.Response {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}
