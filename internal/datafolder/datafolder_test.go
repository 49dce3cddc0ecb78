package datafolder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenderhq/tender/internal/datafolder"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		kind   datafolder.Kind
		holds  []string // with a slash behind: a folder; with " 0600" behind: private
		wanted string   // "": it may begin
	}{
		{name: "empty", kind: datafolder.Agent},
		{name: "new file system", kind: datafolder.Agent, holds: []string{"lost+found/"}},
		{name: "token", kind: datafolder.Agent, holds: []string{"agent.token 0600"}},
		{name: "start that failed early", kind: datafolder.Agent, holds: []string{"lock", "audit.log", "audit.log.1", "sockets/", "images/"}},
		{name: "start that was killed early", kind: datafolder.Agent, holds: []string{"lock", "cells", "cells.new 0600", "trial/"}},
		{name: "agent that has begun", kind: datafolder.Agent, holds: []string{"identity", "notes.txt", "mine/"}},
		{name: "agent that lost its identity", kind: datafolder.Agent, holds: []string{"checkpoint.log", "mine/"}},
		{name: "folder of a person", kind: datafolder.Agent, holds: []string{"work/"}, wanted: "holds work"},
		{name: "programs", kind: datafolder.Agent, holds: []string{"ls"}, wanted: "holds ls"},
		{name: "agent in a master's", kind: datafolder.Agent, holds: []string{"raft.json", "raft/"}, wanted: "folder of a master, as its file raft.json says"},

		{name: "key", kind: datafolder.Master, holds: []string{"cluster.key", "operator.token"}},
		{name: "port taken", kind: datafolder.Master, holds: []string{"LOCK"}},
		{name: "restored", kind: datafolder.Master, holds: []string{"raft.json", "raft/", "notes.txt"}},
		{name: "Raft's files alone", kind: datafolder.Master, holds: []string{"raft/"}},
		{name: "programs", kind: datafolder.Master, holds: []string{"ls"}, wanted: "holds ls"},
		{name: "folder of a person", kind: datafolder.Master, holds: []string{"cluster.key", "work/"}, wanted: "holds work"},
		{name: "master in an agent's", kind: datafolder.Master, holds: []string{"identity", "sandboxes/"}, wanted: "folder of an agent, as its file identity says"},
	} {
		t.Run(test.kind.Noun+"/"+test.name, func(t *testing.T) {
			folder := t.TempDir()
			for _, name := range test.holds {
				put(t, folder, name)
			}
			expect(t, datafolder.Check(folder, test.kind), test.wanted)
		})
	}
}

// put puts something into the folder.
func put(t *testing.T, folder, name string) {
	t.Helper()
	mode := os.FileMode(0o644)
	name, private := strings.CutSuffix(name, " 0600")
	if private {
		mode = 0o600
	}
	var err error
	if name, is := strings.CutSuffix(name, "/"); is {
		err = os.Mkdir(filepath.Join(folder, name), 0o755)
	} else {
		err = os.WriteFile(filepath.Join(folder, name), nil, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, err error, wanted string) {
	t.Helper()
	switch {
	case wanted == "" && err != nil:
		t.Errorf("refused: %v", err)
	case wanted != "" && (err == nil || !strings.Contains(err.Error(), wanted)):
		t.Errorf("%v does not say %q", err, wanted)
	}
}

// TestCheckOfNoFolder: a folder that is not there is made later; a file can't be one.
func TestCheckOfNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	expect(t, datafolder.Check(file, datafolder.Master), "")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, datafolder.Check(file, datafolder.Master), "this is a file, not a folder")
	expect(t, datafolder.Check(filepath.Join(file, "below"), datafolder.Agent), "can't be read")
}
