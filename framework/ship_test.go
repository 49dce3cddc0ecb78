package framework

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestShip: this program is served under its checksum, and nothing else is. After the end nothing is served.
func TestShip(t *testing.T) {
	config, err := Config{Name: "test"}.complete()
	if err != nil {
		t.Fatal(err)
	}
	l := newLoop(config, newScript())
	self, err := l.client.Self("counter", "-x")
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.client.Self("other")
	if err != nil {
		t.Fatal(err)
	}
	uri := self.Command.URIs[0]
	if self.ID != "counter" || self.Command.Argv[0] != "./executor" || self.Command.Argv[1] != "-x" || !uri.Executable || uri.Name != "executor" {
		t.Errorf("described as %+v", self)
	}
	if again.Command.URIs[0].Source != uri.Source {
		t.Errorf("served twice: %s, %s", again.Command.URIs[0].Source, uri.Source)
	}
	status, body := get(t, uri.Source)
	sum := sha256.Sum256(body)
	if status != http.StatusOK || hex.EncodeToString(sum[:]) != uri.SHA256 {
		t.Errorf("status %d, %d bytes", status, len(body))
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile(program); err != nil || sha256.Sum256(want) != sum {
		t.Errorf("it is not this program (%v)", err)
	}
	if status, _ := get(t, uri.Source+"x"); status != http.StatusNotFound {
		t.Errorf("another name: %d", status)
	}
	for range shipsMax {
		l.ship.slots <- struct{}{}
	}
	if status, _ := get(t, uri.Source); status != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", status)
	}
	l.ship.close()
	if response, err := http.Get(uri.Source); err == nil {
		_ = response.Body.Close()
		t.Error("it is served after the end")
	}
	if _, err := l.client.Self("late"); !api.Is(err, api.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
}

func get(t *testing.T, source string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, body
}

// TestShipAddress: the address must name a host, because agents connect to it.
func TestShipAddress(t *testing.T) {
	for address, fine := range map[string]bool{
		"": true, "10.0.0.1:0": true, "scheduler.example:8000": true, "[::1]:0": true,
		":8000": false, "0.0.0.0:8000": false, "[::]:0": false, "10.0.0.1": false,
	} {
		_, err := Config{Name: "test", ShipAddress: address}.complete()
		if fine != (err == nil) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
