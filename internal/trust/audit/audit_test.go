package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestTheAuditLogHasABound: a full file is renamed, only some files are kept, and a restart appends to the last one.
func TestTheAuditLogHasABound(t *testing.T) {
	dir := t.TempDir()
	for round := range filesMax + 3 {
		a, err := Open("", dir)
		if err != nil {
			t.Fatal(err)
		}
		if round > 0 && a.bytes == 0 {
			t.Errorf("round %d: what was written before is forgotten", round)
		}
		if err := a.Write(Line{Who: "person ann", Result: "before"}); err != nil {
			t.Fatal(err)
		}
		a.bytes = bytesMax // as if the file were full
		if err := a.Write(Line{Who: "person ann", Result: "after"}); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != filesMax+1 {
		t.Errorf("there are %v", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := 2 // the end of one round and the beginning of the next
		if filepath.Base(file) == fileName {
			want = 1
		}
		if n := strings.Count(string(text), "\n"); n != want || !strings.HasPrefix(string(text), `{"at":`) {
			t.Errorf("%s has %d lines: %s", file, n, text)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
}

func TestAnAuditLogMayBeNone(t *testing.T) {
	for _, setting := range []struct{ setting, dir string }{{"off", t.TempDir()}, {"", ""}} {
		a, err := Open(setting.setting, setting.dir)
		if err != nil || a.Write(Line{}) != nil || a.Close() != nil {
			t.Errorf("%+v: %v", setting, err)
		}
		if files, _ := filepath.Glob(filepath.Join(setting.dir, "*")); setting.dir != "" && len(files) > 0 {
			t.Errorf("there is %v", files)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "no", "such"), ""); !api.Is(err, api.Unavailable) {
		t.Errorf("a folder that is none: %v", err)
	}
}

func TestSecretsAreNotWrittenDown(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"x","count":3}`: `{"count":3,"name":"x"}`,
		`{"job":{"command":{"env":{"PASSWORD":"s3cret"},"uris":[{"source":"https://u:s3cret@h/a?sig=s3cret"}]},"big":12345678901234567890}}`: `{"job":{"big":12345678901234567890,"command":{"env":{"PASSWORD":"(hidden)"},"uris":[{"source":"https://xxxxx@h/a?sig=xxxxx"}]}}}`,
		`{"shell":"curl https://u:s3cret@h/a -o b"}`: `{"shell":"curl https://xxxxx@h/a -o b"}`,
		`{"environment":{"A":{"B":"s3cret"}}}`:       `{"environment":{"A":"(hidden)"}}`,
	} {
		var l Line
		if l.SetOn([]byte(text)); string(l.On) != want || l.Cut {
			t.Errorf("%s is written down as %s, want %s", text, l.On, want)
		}
	}
	for _, text := range []string{"", "{", strings.Repeat("[", 20000)} {
		var l Line
		if l.SetOn([]byte(text)); l.On != nil || !l.Cut {
			t.Errorf("%.10s is written down as %s", text, l.On)
		}
	}
}
