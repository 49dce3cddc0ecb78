package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDoctorOfACluster: the doctor looks at each master of a cluster with certificates and says nothing bad of a healthy
// one. When the clock of a master is wrong it says so, and the exit code is 1.
func TestDoctorOfACluster(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--masters", "3", "--agents", "1")
	stdout, stderr, code := tender(t, d.env, "doctor", "--data-dir", t.TempDir(), "-o", "json")
	said := findings(t, stdout)
	for _, m := range d.Masters {
		if got := said["master "+m.ID+" clock"]; got != "good" {
			t.Errorf("the clock of master %s is %q", m.ID, got)
		}
		if said["master "+m.ID+" disk room"] == "" {
			t.Errorf("nothing is said of the disk of master %s: %s", m.ID, stdout)
		}
	}
	for _, what := range []string{"masters", "versions of masters", "agents", "versions of agents", "certificates"} {
		if got := said["cluster "+what]; got != "good" {
			t.Errorf("%s: %q, want good", what, got)
		}
	}
	for what, state := range said { // the machine itself may be in any state
		if state == "bad" && (strings.HasPrefix(what, "cluster") || strings.HasPrefix(what, "master") && !strings.Contains(what, "disk") && !strings.Contains(what, "files")) {
			t.Errorf("%s is bad (exit code %d): %s%s", what, code, stdout, stderr)
		}
	}
}

// TestDoctorSeesAWrongClock, and a master that serves no metrics.
func TestDoctorSeesAWrongClock(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--agents", "1", "--insecure")
	l := &liars{t: t, front: map[string]string{}}
	listener := listening(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-10*time.Minute).UTC().Format(http.TimeFormat))
		http.Error(w, "out of order", http.StatusInternalServerError)
	})}
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { server.Close() })
	l.front[d.Masters[0].HTTP] = listener.Addr().String()
	stdout, stderr, code := l.tender("doctor", "--master", d.Masters[0].GRPC, "--data-dir", t.TempDir(), "-o", "json")
	said := findings(t, stdout)
	if said["master "+d.Masters[0].ID+" clock"] != "bad" || said["master "+d.Masters[0].ID+" metrics"] != "unknown" {
		t.Errorf("%s%s", stdout, stderr)
	}
	if said["cluster certificates"] != "warn" {
		t.Errorf("a cluster without certificates: %q", said["cluster certificates"])
	}
	if code != 1 || !strings.Contains(stderr, "bad") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestDoctorWithoutACluster: that nobody answers is bad, and the machine is looked at all the same.
func TestDoctorWithoutACluster(t *testing.T) {
	t.Parallel()
	l := &liars{t: t}
	silent := listening(t)
	address := silent.Addr().String()
	silent.Close()
	stdout, stderr, code := l.tender("doctor", "--master", address, "--data-dir", t.TempDir(), "-o", "json")
	said := findings(t, stdout)
	if said["cluster masters"] != "bad" || said["machine version"] != "good" || code != 1 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if stdout, _, _ := l.tender("doctor", "--data-dir", t.TempDir()); strings.Contains(stdout, "cluster ") || !strings.HasPrefix(stdout, "STATE") {
		t.Errorf("nobody has named a cluster: %s", stdout)
	}
}

// findings returns the states by what they are of.
func findings(t *testing.T, text string) map[string]string {
	t.Helper()
	var answer struct {
		Items []struct{ State, Of, What, Is, Right, Do string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	said := map[string]string{}
	for _, f := range answer.Items {
		said[f.Of+" "+f.What] = f.State
	}
	return said
}
