package registrycodec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/master/registry"
)

// rewrite is the flag of all transcripts and golden files.
var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// filledAs returns a value in which every exported field that a format has holds something.
func filledAs[T any](format uint64, seed int) T {
	var value T
	filler{format, &seed}.fill(reflect.ValueOf(&value).Elem())
	return value
}

// filler fills the fields that a format has. Each field is filled by the next seed.
type filler struct {
	format uint64
	seed   *int
}

func (f filler) fill(v reflect.Value) {
	seed := f.seed
	*seed++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(*seed), 5).UTC()))
		return
	case api.Resources:
		v.Set(reflect.ValueOf(api.NewResources(
			api.Resource{Label: api.Label{Name: "cpus"}, Scalar: api.Milli(*seed)},
			api.Resource{Label: api.Label{Name: "disk", Reserved: "eng", Dynamic: true, Volume: "v"}, Scalar: 5},
			api.Resource{Label: api.Label{Name: "gpus", Revocable: true}, Set: api.NewSet("a", "b")},
			api.Resource{Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: 1, End: 2})},
		)))
		return
	case api.Mark:
		v.SetUint(3)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("s" + string(rune('a'+*seed%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*seed))
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(uint64(*seed % 13))
	case reflect.Float64:
		v.SetFloat(float64(*seed) / 2)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && newer[field.Name] <= f.format {
				f.fill(v.Field(i))
			}
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key)
		f.fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Interface:
		v.Set(reflect.ValueOf(errors.New("cause")))
	default:
		panic("fill knows no " + v.Type().String())
	}
}

// newer are fields that format 1 had not, by the format that has brought them. What is written for an older format has
// nothing in them, so that the golden files of older formats stay what they were.
var newer = map[string]uint64{}

// changes returns every change that a format has, full and empty.
func changes(format uint64) []registry.Change {
	return []registry.Change{
		filledAs[registry.Bootstrap](format, 1), registry.Bootstrap{}, filledAs[registry.RaiseEpoch](format, 2), registry.RaiseEpoch{},
		filledAs[registry.SetMaster](format, 3), registry.SetMaster{}, filledAs[registry.RemoveMaster](format, 4), registry.RemoveMaster{},
		filledAs[registry.AdmitAgent](format, 5), registry.AdmitAgent{}, filledAs[registry.UpdateAgent](format, 6), registry.UpdateAgent{},
		filledAs[registry.MarkAgent](format, 7), registry.MarkAgent{}, filledAs[registry.RemoveAgent](format, 8), registry.RemoveAgent{},
		filledAs[registry.SetReserved](format, 9), registry.SetReserved{}, filledAs[registry.Subscribe](format, 10), registry.Subscribe{},
		filledAs[registry.DestroyOrphan](format, 28), registry.DestroyOrphan{}, filledAs[registry.VolumeGone](format, 29), registry.VolumeGone{},
		filledAs[registry.KeepKill](format, 30), registry.KeepKill{}, filledAs[registry.ForgetKills](format, 31), registry.ForgetKills{},
		filledAs[registry.Readmit](format, 11), registry.Readmit{}, filledAs[registry.UpdateFramework](format, 12), registry.UpdateFramework{},
		filledAs[registry.RemoveFramework](format, 13), registry.RemoveFramework{}, filledAs[registry.SetRole](format, 14), registry.SetRole{},
		filledAs[registry.PutEntry](format, 15), registry.PutEntry{}, filledAs[registry.DeleteEntry](format, 16), registry.DeleteEntry{},
		filledAs[registry.Expire](format, 17), registry.Expire{},
		registry.RaiseFormat{Format: format}, filledAs[registry.SetMaintenance](format, 18), registry.SetMaintenance{},
		filledAs[registry.BeginMaintenance](format, 19), registry.BeginMaintenance{},
		filledAs[registry.CheckHash](format, 20), registry.CheckHash{},
		filledAs[registry.Grant](format, 21), registry.Grant{}, filledAs[registry.TakeGrant](format, 22), registry.TakeGrant{},
		filledAs[registry.RevokePrincipal](format, 23), registry.RevokePrincipal{}, filledAs[registry.BeginReceipts](format, 24), registry.BeginReceipts{},
		filledAs[registry.CreateToken](format, 21), registry.CreateToken{}, filledAs[registry.UseToken](format, 22), registry.UseToken{},
		filledAs[registry.RevokeToken](format, 23), registry.RevokeToken{}, filledAs[registry.RotateAuthority](format, 25), registry.RotateAuthority{},
		filledAs[registry.SetSecret](format, 26), registry.SetSecret{}, filledAs[registry.RemoveSecret](format, 27), registry.RemoveSecret{},
	}
}

func allCommands() []registry.Command { return commandsOf(registry.Format) }

func entryOf(t *testing.T, commands []registry.Command) []byte {
	t.Helper()
	return entryAs(t, commands, registry.Format)
}

// entryAs is the entry that is written once all masters know a format.
func entryAs(t *testing.T, commands []registry.Command, known uint64) []byte {
	t.Helper()
	var messages []*logpb.Command
	for _, command := range commands {
		m, _, err := EncodeCommand(command)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	data, err := EncodeEntry(messages, known)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// same compares what was written with what was read; nothing and empty are one.
func same(a, b any) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(registry.State{}, registry.Framework{}),
		cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error()) }))
}

// TestEveryChangeSurvivesTheLog: nothing of a command is lost on its way.
func TestEveryChangeSurvivesTheLog(t *testing.T) {
	commands := allCommands()
	read, err := DecodeEntry(entryOf(t, commands))
	if err != nil {
		t.Fatal(err)
	}
	for i := range commands {
		if diff := same(commands[i], read[i]); diff != "" {
			t.Errorf("%T: %s", commands[i].Change, diff)
		}
	}
}

// TestNoEntryPanics: whatever the bytes, reading them ends in commands or an error.
func TestNoEntryPanics(t *testing.T) {
	good := entryOf(t, allCommands())
	rapid.Check(t, func(t *rapid.T) {
		data := bytes.Clone(good)
		for range rapid.IntRange(1, 8).Draw(t, "wounds") {
			data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		commands, err := DecodeEntry(data[:rapid.IntRange(0, len(data)).Draw(t, "length")])
		if err != nil {
			return
		}
		state := registry.New()
		for _, command := range commands {
			state.Apply(command)
		}
	})
}

// TestDamagedEntriesAreFound: every flipped bit and every lost tail of an entry is noticed,
// when it is applied and at start.
func TestDamagedEntriesAreFound(t *testing.T) {
	good := entryOf(t, allCommands())
	for at := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << bit
			if _, err := DecodeEntry(bad); err == nil || CheckEntry(bad) == nil {
				t.Fatalf("bit %d of byte %d may be wrong", bit, at)
			}
		}
		if _, err := DecodeEntry(good[:at]); err == nil || CheckEntry(good[:at]) == nil {
			t.Fatalf("%d of %d bytes are enough", at, len(good))
		}
	}
}

func snapshotOf(t *testing.T, state *registry.State) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := WriteSnapshot(&out, state, 7); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// fullState holds something in every field that a format has.
func fullState(format uint64) *registry.State {
	state := filledAs[registry.State](format, 100)
	state.Format = format
	// Keys repeat what is inside, and sizes sum it up.
	for key, agent := range state.Agents {
		delete(state.Agents, key)
		state.Agents[agent.Agent.ID] = agent
	}
	for key, framework := range state.Frameworks {
		delete(state.Frameworks, key)
		framework.StoreSize = 0
		for key, entry := range framework.Store {
			framework.StoreSize += int64(len(key) + len(entry.Value))
		}
		state.Frameworks[framework.Framework.ID] = framework
	}
	for key, token := range state.Tokens {
		delete(state.Tokens, key)
		state.Tokens[token.ID] = token
	}
	return &state
}

// TestSnapshotKeepsEverything: also in a state that commands alone never make.
func TestSnapshotKeepsEverything(t *testing.T) {
	state := fullState(registry.Format)
	read, head, err := ReadSnapshot(bytes.NewReader(snapshotOf(t, state)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := same(state, read); diff != "" {
		t.Error(diff)
	}
	if Hash(read) != Hash(state) || head.Hash != Hash(state) || head.Term != 7 || head.Index != state.Index {
		t.Errorf("head %+v of a state with hash %s", head, Hash(state))
	}
}

// TestDamageIsFound: every flipped bit and every lost tail of a snapshot is noticed.
func TestDamageIsFound(t *testing.T) {
	good := snapshotOf(t, fullState(registry.Format))
	for at := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << bit
			if _, _, err := ReadSnapshot(bytes.NewReader(bad)); err == nil {
				t.Fatalf("bit %d of byte %d may be wrong", bit, at)
			}
		}
		if _, _, err := ReadSnapshot(bytes.NewReader(good[:at])); err == nil {
			t.Fatalf("%d of %d bytes are enough", at, len(good))
		}
	}
}

// TestSnapshotOfAnotherState: P15. The snapshot's checksum is right, and what it says about its state is not.
func TestSnapshotOfAnotherState(t *testing.T) {
	for says, change := range map[string]func(*logpb.SnapshotHead){
		"its hash is wrong": func(head *logpb.SnapshotHead) { head.Hash = Hash(registry.New()) },
		"items and says":    func(head *logpb.SnapshotHead) { head.Items++ },
	} {
		data := resealed(t, snapshotOf(t, fullState(registry.Format)), change)
		if _, _, err := ReadSnapshot(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: it came to %v", says, err)
		}
	}
}

// resealed is a snapshot with another head and the checksum of that.
func resealed(t *testing.T, data []byte, change func(*logpb.SnapshotHead)) []byte {
	t.Helper()
	in := newFrameReader(bytes.NewReader(data))
	head, err := in.head()
	if err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(in.r)
	if err != nil {
		t.Fatal(err)
	}
	change(head)
	var out bytes.Buffer
	w := &frameWriter{w: &out}
	w.bytes([]byte(snapshotMagic))
	w.frame(head)
	w.bytes(rest[:len(rest)-crc32.Size])
	if w.err != nil {
		t.Fatal(w.err)
	}
	return binary.LittleEndian.AppendUint32(out.Bytes(), crc32.Checksum(out.Bytes(), castagnoli))
}

// TestGoldenFormats: what earlier versions have written is read, and what this one
// writes is what it wrote (R24). A format that changes gets a new file beside the old.
func TestGoldenFormats(t *testing.T) {
	for format := uint64(1); format <= registry.Format; format++ {
		entry, snapshot := fmt.Sprintf("entry-%d.hex", format), fmt.Sprintf("snapshot-%d.hex", format)
		commands, state := commandsOf(format), fullState(format)
		// What an earlier version has written is never written anew.
		golden(t, entry, entryAs(t, commands, format), format == registry.Format)
		golden(t, snapshot, snapshotOf(t, state), format == registry.Format)
		data := readGolden(t, entry)
		read, err := DecodeEntry(data)
		if err != nil || same(read, commands) != "" {
			t.Errorf("an entry of format %d: %v %s", format, err, same(read, commands))
		}
		if err := CheckEntry(data); err != nil {
			t.Errorf("%s is refused at start: %v", entry, err)
		}
		if m, err := readEntry(data); err != nil || uint64(m.Format) != format {
			t.Errorf("%s says that it has format %d, %v", entry, m.GetFormat(), err)
		}
		loaded, _, err := ReadSnapshot(bytes.NewReader(readGolden(t, snapshot)))
		if err != nil || same(loaded, state) != "" {
			t.Errorf("a snapshot of format %d: %v %s", format, err, same(loaded, state))
		}
	}
}

// commandsOf are all that a format can say.
func commandsOf(format uint64) []registry.Command {
	var commands []registry.Command
	for i, change := range changes(format) {
		command := registry.Command{Client: "m1/7", Counter: uint64(i), At: time.Unix(int64(i), 9).UTC(), Change: change}
		if m, _, err := EncodeCommand(command); err == nil && formatOf(m) <= format {
			commands = append(commands, command)
		}
	}
	return commands
}

func golden(t *testing.T, name string, data []byte, newest bool) {
	t.Helper()
	if *rewrite && newest {
		var text strings.Builder
		for line := data; len(line) > 0; line = line[min(32, len(line)):] {
			text.WriteString(hex.EncodeToString(line[:min(32, len(line))]) + "\n")
		}
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("testdata", name), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(readGolden(t, name), data) && strings.HasPrefix(name, "snapshot") {
		t.Errorf("%s is written differently now", name) // entries hold maps in no order
	}
}

func readGolden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	data, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestNewerFormatsAreRefused: before Raft opens, with a sentence.
func TestNewerFormatsAreRefused(t *testing.T) {
	newer, err := proto.Marshal(&logpb.Entry{Format: uint32(registry.Format + 1)})
	if err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func([]byte) error{
		"read":     func(data []byte) error { _, err := DecodeEntry(data); return err },
		"at start": CheckEntry,
	} {
		if err := read(newer); err == nil || !strings.Contains(err.Error(), "newer") {
			t.Errorf("a newer entry, %s: %v", what, err)
		}
		if err := read(newer[:1]); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("a torn entry, %s: %v", what, err)
		}
		if err := read(nil); err == nil {
			t.Errorf("an entry of nothing, %s, is taken", what)
		}
	}
}
