package master

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/journal"
)

// TestKeptGolden: R24. What was kept of a master's flags is read and written the same; what a newer version kept is
// refused with a sentence.
func TestKeptGolden(t *testing.T) {
	want := Config{GRPC: "host1:6060", HTTP: "host1:6050", Raft: "host1:6070", Advertise: "host1", Trust: Trust{Insecure: true}, Profile: "fast"}
	data, err := os.ReadFile("testdata/master-1.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, keptFile), string(data))
	got, err := Config{DataDir: dir}.withKept()
	if err != nil {
		t.Fatal(err)
	}
	same := got.GRPC == want.GRPC && got.HTTP == want.HTTP && got.Raft == want.Raft && got.Advertise == want.Advertise &&
		got.Trust.Insecure == want.Trust.Insecure && got.Profile == want.Profile
	if !same {
		t.Errorf("read as %+v", got)
	}
	if err := got.keep(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, keptFile)); err != nil || string(now) != string(data) {
		t.Errorf("it is written differently now: %s %v", now, err)
	}
	write(t, filepath.Join(dir, keptFile), `{"format": 2, "grpc": ["of", "the", "future"]}`)
	if _, err := (Config{DataDir: dir}).withKept(); err == nil || !strings.Contains(err.Error(), "format 2") || !strings.Contains(err.Error(), "newer") {
		t.Errorf("kept by a newer version: %v", err)
	}
}

// TestKeptFlips flips each bit of the file with a master's flags, and cuts it everywhere. Either the damage is found,
// with what to do, or what is read is what was written.
func TestKeptFlips(t *testing.T) {
	data, err := os.ReadFile("testdata/master-1.json")
	if err != nil {
		t.Fatal(err)
	}
	var truth kept
	if err := truth.read(data); err != nil {
		t.Fatal(err)
	}
	refused := 0
	look := func(what string, data []byte) {
		var got kept
		switch err := got.read(data); {
		case err == nil:
			if got != truth {
				t.Errorf("%s: used as it is: %+v", what, got)
			}
		case !strings.Contains(err.Error(), "delete it and start") && !strings.Contains(err.Error(), "newer one"):
			t.Errorf("%s: it does not say what to do: %v", what, err)
		default:
			refused++
		}
	}
	for at := range data {
		look(fmt.Sprintf("cut to %d bytes", at), data[:at])
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[at] ^= 1 << bit
			look(fmt.Sprintf("bit %d of byte %d", bit, at), bad)
		}
	}
	if refused < 8*len(data)/2 {
		t.Errorf("%d of %d were refused", refused, 9*len(data))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestJournalOfAnotherVersion: after an upgrade the old journal is put aside whole, and a
// new one begins. A file that is no journal stays, and nothing is written.
func TestJournalOfAnotherVersion(t *testing.T) {
	for _, test := range []struct{ was, aside string }{
		{"tender allocator journal 1\nof the past", "tender allocator journal 1\nof the past"},
		{"tender allocator journal 9\nof the future", "tender allocator journal 9\nof the future"},
		{"a diary, and a long one at that", ""},
	} {
		path := filepath.Join(t.TempDir(), "journal")
		write(t, path, test.was)
		r := &recorder{path: path, log: zerolog.Nop(), queue: make(chan []byte, 1), mirror: inputs.NewMirror(), encoder: journal.Encoder{Epoch: time.Unix(1, 0)}}
		r.queue <- r.encoder.Head(nil, r.mirror, true)
		close(r.queue)
		err := r.writeAll()
		now, _ := os.ReadFile(path)
		aside, _ := os.ReadFile(path + ".1")
		switch {
		case string(aside) != test.aside:
			t.Errorf("%q: aside is %q", test.was, aside)
		case test.aside == "" && (err == nil || string(now) != test.was):
			t.Errorf("%q became %q: %v", test.was, now, err)
		case test.aside != "":
			sections, torn, read := journal.Read(strings.NewReader(string(now)))
			if err != nil || read != nil || torn || len(sections) != 1 {
				t.Errorf("%q: %d sections, torn %v: %v, %v", test.was, len(sections), torn, err, read)
			}
		}
	}
}
