package guard

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestTheAuditLogHasABound: a full file is put aside, so many are kept, and a restart goes on behind what was written.
func TestTheAuditLogHasABound(t *testing.T) {
	dir := t.TempDir()
	for round := range auditFilesMax + 3 {
		a, err := openAudit("", dir)
		if err != nil {
			t.Fatal(err)
		}
		if round > 0 && a.bytes == 0 {
			t.Errorf("round %d: what was written before is forgotten", round)
		}
		if err := a.write(line{Who: "person ann", Result: "before"}); err != nil {
			t.Fatal(err)
		}
		a.bytes = auditBytesMax // as if it were full
		if err := a.write(line{Who: "person ann", Result: "after"}); err != nil {
			t.Fatal(err)
		}
		if err := a.close(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != auditFilesMax+1 {
		t.Errorf("there are %v", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := 2 // the end of one round and the beginning of the next
		if filepath.Base(file) == auditFile {
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
		a, err := openAudit(setting.setting, setting.dir)
		if err != nil || a.write(line{}) != nil || a.close() != nil {
			t.Errorf("%+v: %v", setting, err)
		}
		if files, _ := filepath.Glob(filepath.Join(setting.dir, "*")); setting.dir != "" && len(files) > 0 {
			t.Errorf("there is %v", files)
		}
	}
	if _, err := openAudit(filepath.Join(t.TempDir(), "no", "such"), ""); !api.Is(err, api.Unavailable) {
		t.Errorf("a folder that is none: %v", err)
	}
}

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
