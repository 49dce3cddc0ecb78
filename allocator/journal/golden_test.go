package journal_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/fairshare"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/journal"
	"github.com/tenderhq/tender/api"
)

// rewrite is the flag of all transcripts and golden files.
var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden has everyInput and everyAnswer as they were written when format 2 was new. A new format gets a file of its
// own.
const golden = "testdata/journal-2"

var moment = time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC)

// everyInput has an input of each kind, with each field set.
func everyInput() []inputs.Input {
	reserved := api.NewResources(
		api.Resource{Label: api.Label{Name: "cpus"}, Scalar: 1500},
		api.Resource{Label: api.Label{Name: "cpus", Revocable: true}, Scalar: 250},
		api.Resource{Label: api.Label{Name: "disk", Reserved: "eng", Dynamic: true, Volume: "v"}, Scalar: 5000},
		api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: 31000, End: 31009})},
		api.Resource{Label: api.Label{Name: "gpus"}, Set: api.NewSet("g0", "g1")},
	)
	plain := api.Scalars(1, 512)
	claim := allocator.Claim{Framework: "f1", Role: "eng/web", Agent: "a1", Resources: plain}
	task := allocator.Claim{Framework: "f1", Role: "eng/web", Agent: "a1", Resources: plain, Task: "t1", Since: moment.Add(time.Minute)}
	return []inputs.Input{
		inputs.SetAgent{Agent: allocator.Agent{
			ID: "a1", Hostname: "host1", Total: reserved, Attributes: map[string]string{"rack": "r1"}, Region: "eu", Zone: "eu-1", Offerable: true, Why: "w",
		}},
		inputs.SetFramework{Framework: allocator.Framework{
			Framework: api.Framework{ID: "f1", Name: "n", Roles: []api.Role{"eng/web"}, Constraint: `rack == "r1"`, MinOffer: plain, MaxOffer: reserved, Revocable: true}, Active: true,
		}},
		inputs.SetRole{Role: allocator.Role{Role: "eng", Weight: 2.5, Priority: -3, Guarantee: plain, Limit: api.Scalars(4, 4096)}},
		inputs.SetDemand{Framework: "f1", Role: "eng/web", Shapes: []api.Shape{{
			Resources: plain, Count: 7, Constraint: `zone == "eu-1"`, Preferred: []api.AgentID{"a1"}, OnlyPreferred: true,
		}}},
		inputs.Suppress{Framework: "f1", Roles: []api.Role{"eng/web"}},
		inputs.Revive{Framework: "f1", Roles: []api.Role{"eng/web"}},
		inputs.Hold{On: true},
		inputs.Take{Claim: claim},
		inputs.Launch{Claim: task},
		inputs.Return{Claim: task},
		inputs.Refuse{Claim: claim, Until: moment.Add(5 * time.Second)},
		inputs.Use{Agent: "a1", Beyond: api.Scalars(0.5, 64)},
		inputs.Allocate{At: moment.Add(time.Second)},
		inputs.RemoveFramework{Framework: "f1"},
		inputs.RemoveAgent{Agent: "a1"},
	}
}

// everyAnswer has a proposal of each kind.
func everyAnswer() allocator.Allocation {
	claim := allocator.Claim{Framework: "f1", Role: "eng/web", Agent: "a1", Resources: api.Scalars(1, 512)}
	victim := claim
	victim.Task, victim.Since = "t1", moment.Add(time.Minute)
	return allocator.Allocation{
		Offers:  []allocator.Claim{claim},
		Inverse: []allocator.Inverse{{Victims: []allocator.Claim{victim}, For: "f2", Role: "high", Agent: "a1"}},
		Spared:  []allocator.Claim{victim},
	}
}

// TestGolden: every input and every answer of a journal that was written when its format was new is read as it was
// meant. (R24)
func TestGolden(t *testing.T) {
	config := allocator.Config{}
	encoder := &journal.Encoder{Policy: "fairshare", Config: config, Epoch: moment}
	file := encoder.Head([]byte(journal.Magic), inputs.NewMirror(), true)
	for _, input := range everyInput() {
		file = encoder.Input(file, input)
		if _, run := input.(inputs.Allocate); run {
			file = encoder.Proposed(file, everyAnswer())
		}
	}
	if *rewrite {
		if err := os.WriteFile(golden, file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	sections, torn, err := journal.Read(bytes.NewReader(old))
	if err != nil || torn || len(sections) != 1 {
		t.Fatalf("%d sections, torn %v: %v", len(sections), torn, err)
	}
	section := &sections[0]
	if section.Policy != "fairshare" || !section.Whole || len(section.Steps) != len(everyInput()) {
		t.Fatalf("%d steps of %s, whole %v", len(section.Steps), section.Policy, section.Whole)
	}
	resources := cmp.Comparer(func(a, b api.Resources) bool { return a.Equal(b) })
	for i, input := range everyInput() {
		if diff := cmp.Diff(input, section.Steps[i].Input, resources); diff != "" {
			t.Errorf("%T: %s", input, diff)
		}
	}
	if rounds, same := section.Same(answering{policy(t, fairshare.New), everyAnswer()}); rounds != 1 || same != 1 {
		t.Errorf("%d of %d answers are what was written", same, rounds)
	}
	if rounds, same := section.Same(answering{policy(t, fairshare.New), allocator.Allocation{}}); rounds != 1 || same != 0 {
		t.Errorf("no answer was taken for what was written, %d of %d", same, rounds)
	}
}

// answering is a policy that always proposes the same.
type answering struct {
	allocator.Allocator
	answer allocator.Allocation
}

func (a answering) Allocate(time.Time) allocator.Allocation { return a.answer }

// TestOtherFormatsAreRefused: a journal of an older or a newer format is refused, whether its first line or its head
// says so. The error says what to do, and nothing may be cut off the file. (R24)
func TestOtherFormatsAreRefused(t *testing.T) {
	old, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	body := old[len(journal.Magic):]
	for line, says := range map[string]string{
		"tender allocator journal 1\n":  "it has format 1 and this version reads format 2; replay it with the version that wrote it, or record anew",
		"tender allocator journal 3\n":  "it has format 3 and this version reads format 2; replay it with the version that wrote it, or a newer one",
		"tender allocator journal 17\n": "it has format 17 ",
	} {
		file := append([]byte(line), body...)
		_, _, read := journal.Read(bytes.NewReader(file))
		_, whole := journal.Whole(bytes.NewReader(file))
		for _, err := range []error{read, whole} {
			if !errors.Is(err, journal.ErrFormat) || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v", line, err)
			}
		}
	}
}
