package secrets_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tenderhq/tender/agent/secrets"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

func ref(task string) api.TaskRef { return api.TaskRef{Framework: "f1", Task: api.TaskID(task)} }

func sent(task string, values ...protocol.SecretValue) protocol.TaskSecrets {
	return protocol.TaskSecrets{TaskRef: ref(task), Values: values}
}

// TestABoxKeepsWhatTheOthersDoNotSee: what is passed on to the core has no values, and each task gets its own.
func TestABoxKeepsWhatTheOthersDoNotSee(t *testing.T) {
	var box secrets.Box
	rest := box.Take(sent("t1", protocol.SecretValue{ID: "eng/db", Value: []byte("hunter2")}, protocol.SecretValue{ID: "eng/key", Value: []byte("k")}))
	if rest.Values != nil || rest.TaskRef != ref("t1") || rest.Why != "" {
		t.Errorf("the core sees %+v", rest)
	}
	named := []api.Secret{{ID: "eng/db", Env: "PASSWORD"}, {ID: "eng/key", File: "key"}, {ID: "eng/db", File: "db"}}
	variables, err := box.Variables(ref("t1"), named)
	if err != nil || len(variables) != 1 || string(variables["PASSWORD"]) != "hunter2" {
		t.Errorf("the variables are %d, %v", len(variables), err)
	}
	files, err := box.Files(ref("t1"), named)
	if err != nil || len(files) != 2 || string(files["key"]) != "k" || string(files["db"]) != "hunter2" {
		t.Errorf("the files are %d, %v", len(files), err)
	}
	if _, err := box.Variables(ref("t2"), named); err == nil || !strings.Contains(err.Error(), "eng/db") {
		t.Errorf("another task gets them: %v", err)
	}
	box.Drop(ref("t1"))
	if _, err := box.Files(ref("t1"), named); err == nil {
		t.Error("they are still there")
	}
}

// TestABoxIsBounded: a task whose values do not fit does not get them and is told why, and other tasks keep theirs.
func TestABoxIsBounded(t *testing.T) {
	var box secrets.Box
	value := protocol.SecretValue{ID: "eng/db", Value: make([]byte, secrets.BoxBytesMax/2)}
	for i, fits := range []bool{true, false, false} {
		name := fmt.Sprint("t", i)
		rest := box.Take(sent(name, value))
		_, err := box.Variables(ref(name), []api.Secret{{ID: "eng/db", Env: "DB"}})
		if rest.Values != nil || (err == nil) != fits || err != nil && !strings.Contains(err.Error(), "which is the most") {
			t.Errorf("task %d: %v, want that it fits to be %v", i, err, fits)
		}
	}
	box.Take(sent("t0", value)) // a repetition replaces the first copy
	box.Drop(ref("t0"))
	box.Take(sent("t3", value))
	if _, err := box.Variables(ref("t3"), []api.Secret{{ID: "eng/db", Env: "DB"}}); err != nil {
		t.Errorf("what was dropped still counts: %v", err)
	}
	refused := box.Take(protocol.TaskSecrets{TaskRef: ref("t4"), Why: "there is no secret eng/db (any more)"})
	if refused.Why != "there is no secret eng/db (any more)" {
		t.Errorf("a refusal becomes %+v", refused)
	}
}

// TestAValueIsPrintedNowhere: no way of printing an event, or what an executor is handed, shows a value.
func TestAValueIsPrintedNowhere(t *testing.T) {
	launch := protocol.ExecutorLaunch{Secrets: map[string]protocol.Hidden{"PASSWORD": []byte("hunter2")}}
	event := sent("t1", protocol.SecretValue{ID: "eng/db", Value: []byte("hunter2")})
	asJSON, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v", event, event, event), fmt.Sprintf("%v %+v %#v", launch, launch, launch),
		fmt.Sprintf("%s %q %x %d", event.Values[0].Value, event.Values[0].Value, event.Values[0].Value, event.Values[0].Value), string(asJSON),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) || strings.Contains(text, "104 117 110") {
			t.Errorf("it is printed: %s", text)
		}
	}
}
