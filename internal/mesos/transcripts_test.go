package mesos_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/tenderhq/tender/internal/mesos/v1/agent"
	executorv1 "github.com/tenderhq/tender/internal/mesos/v1/executor"
	masterv1 "github.com/tenderhq/tender/internal/mesos/v1/master"
	schedulerv1 "github.com/tenderhq/tender/internal/mesos/v1/scheduler"
)

// TestEveryCallAndEventIsPlayed: each call and event of the API is in a transcript, or in a test that reads a stream.
// Each is played in both encodings by its package's test.
func TestEveryCallAndEventIsPlayed(t *testing.T) {
	for _, of := range []struct {
		folder string
		types  protoreflect.EnumType
		words  func(name string) []string // of which one stands in a transcript
		except []string
	}{
		{"gateway", schedulerv1.Call_Type(0).Type(), asType, nil},
		{"gateway", schedulerv1.Event_Type(0).Type(), asType, nil},
		{"adapter", executorv1.Call_Type(0).Type(), asWord, nil},
		{"adapter", executorv1.Event_Type(0).Type(), asEvent, []string{"ERROR"}}, // which agents of Mesos never send either
		{"operator", masterv1.Call_Type(0).Type(), asType, nil},
		{"operator", masterv1.Event_Type(0).Type(), asType, nil},
		{"operator", agentv1.Call_Type(0).Type(), asType, []string{"ATTACH_CONTAINER_INPUT"}}, // whose records TestMesosExec and make mesos play
	} {
		transcripts := read(t, of.folder)
		values := of.types.Descriptor().Values()
		for i := range values.Len() {
			name := string(values.Get(i).Name())
			played := slices.ContainsFunc(of.words(name), func(word string) bool { return strings.Contains(transcripts, word) })
			if name != "UNKNOWN" && played == slices.Contains(of.except, name) {
				t.Errorf("%s of %s: played is %t", name, of.types.Descriptor().FullName(), played)
			}
		}
	}
}

func asType(name string) []string {
	return []string{`"type":"` + name + `"`, `"type": "` + name + `"`, "Event_" + name + ")", "Call_" + name + ".Enum()"}
}

func asWord(name string) []string { return []string{"\n" + strings.ToLower(name), "\ncall " + name} }

func asEvent(name string) []string { return []string{"executor: " + name} }

// read returns all transcripts of a package, and its tests.
func read(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "testdata", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in %s: %v", folder, err)
	}
	tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range append(files, tests...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
