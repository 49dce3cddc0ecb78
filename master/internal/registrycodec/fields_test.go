package registrycodec

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/registry"
)

// formatReleased is the format of the newest release; 0 while there is none. What it has stays as it is; until then
// fields come and go without a format of their own.
const formatReleased = 0

// TestEveryFieldHasItsFormat: testdata/fields lists every field that a log or a snapshot can hold,
// with the format that has brought it. Whoever adds one, also to a noun of the public protocol
// that masters keep, says in since which format that is: an older master does not know it.
func TestEveryFieldHasItsFormat(t *testing.T) {
	found := map[string]uint64{}
	for _, m := range []proto.Message{new(logpb.Entry), new(logpb.SnapshotHead), new(logpb.SnapshotItem)} {
		reach(m.ProtoReflect().Descriptor(), 1, found)
	}
	file := filepath.Join("testdata", "fields")
	text, err := os.ReadFile(file)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	listed := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		name, format, _ := strings.Cut(strings.TrimSpace(line), " ")
		if listed[name], err = strconv.ParseUint(format, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(found)) {
		format, known := listed[name]
		switch {
		case !known && len(listed) > 0 && found[name] <= formatReleased:
			t.Errorf("%s is new: name the format that brings it in changes.go, at since (a new registry.Format, if %d was released), then run with -rewrite",
				name, registry.Format)
		case known && format != found[name], !known && !*rewrite:
			t.Errorf("%s is of format %d, and was listed with %d: -rewrite, if it is new", name, found[name], format)
		}
		fmt.Fprintln(&lines, name, found[name])
	}
	for name := range listed {
		if _, there := found[name]; !there && (listed[name] <= formatReleased || !*rewrite) {
			t.Errorf("%s is gone; what is on disk has it (-rewrite, if no release has written it)", name)
		}
	}
	for name := range since {
		if _, there := found[string(name)]; !there {
			t.Errorf("since names %s, which is no field of a log or a snapshot", name)
		}
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// reach collects the fields of a message and of all that is in it, each with the oldest format in
// which something can hold it.
func reach(message protoreflect.MessageDescriptor, format uint64, found map[string]uint64) {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		name, format := string(field.FullName()), max(sinceFormat(field), format)
		if before, again := found[name]; again && before <= format {
			continue
		}
		found[name] = format
		if field.Message() != nil && !field.IsMap() {
			reach(field.Message(), format, found)
		}
	}
}

// TestWhatOlderMastersDoNotKnowIsLeftOut: R24. What a newer format brings is in no entry before all
// masters know that format, and not in the hash by which they compare their registries: in an
// upgrade the newer ones would come to hold what the older ones can't, and somebody would stop.
func TestWhatOlderMastersDoNotKnowIsLeftOut(t *testing.T) {
	const field = "tender.v1.Framework.labels" // as if a later format had brought it
	since[field] = registry.Format + 1
	defer delete(since, field)

	subscribe := registry.Command{Change: registry.Subscribe{Framework: api.Framework{Name: "f", Labels: map[string]string{"a": "b"}}}}
	for known, want := range map[uint64]int{registry.Format: 0, registry.Format + 1: 1} {
		m, _, err := EncodeCommand(subscribe)
		if err != nil {
			t.Fatal(err)
		}
		leaveOutNewer(m.ProtoReflect(), known)
		if got := m.GetSubscribe().GetFramework(); len(got.Labels) != want || got.Name != "f" {
			t.Errorf("for masters that know format %d the log has %v", known, got)
		}
	}
	without, with := registry.New(), registry.New()
	for s, labels := range map[*registry.State]map[string]string{without: nil, with: {"a": "b"}} {
		s.Format = registry.Format
		framework := api.Framework{Name: "f", Roles: []api.Role{"r"}, Labels: labels}
		if result := s.Apply(registry.Command{At: time.Unix(1, 0), Change: registry.Subscribe{Framework: framework, Instance: "i"}}); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	if Hash(with) != Hash(without) {
		t.Error("a field that the registry's format does not have is hashed")
	}
	without.Format, with.Format = registry.Format+1, registry.Format+1
	if Hash(with) == Hash(without) {
		t.Error("a field that the registry's format has is not hashed")
	}
}
