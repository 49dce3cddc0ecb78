package show_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func TestTableAlignsAndStaysPlain(t *testing.T) {
	var text strings.Builder
	err := show.Table(&text, []string{"NAME", "STATE", "WHY"}, [][]string{
		{"größer", "RUNNING", ""},
		{"b", "", "two\nlines \x1b[31mred"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "NAME     STATE     WHY\n" +
		"größer   RUNNING   -\n" +
		"b        -         two lines  [31mred\n"
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}

func TestFieldsLeaveOutWhatIsEmpty(t *testing.T) {
	var text strings.Builder
	if err := show.Fields(&text, [][2]string{{"ID", "a"}, {"Hostname", ""}, {"State", "RUNNING\nsince 3s"}}); err != nil {
		t.Fatal(err)
	}
	if want := "ID:     a\nState:  RUNNING\n        since 3s\n"; text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}

func TestAge(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	for before, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 12 * time.Second: "12s", 119 * time.Second: "119s", 3 * time.Minute: "3m",
		5 * time.Hour: "5h", 9 * 24 * time.Hour: "9d",
	} {
		if got := show.Age(now, timestamppb.New(now.Add(-before))); got != want {
			t.Errorf("%v ago: got %q, want %q", before, got, want)
		}
	}
	if got := show.Age(now, nil); got != "" {
		t.Errorf("never: got %q", got)
	}
}

func TestResourcesInTheirOrder(t *testing.T) {
	resources, err := structpb.NewStruct(map[string]any{
		"ports": "[31000-31009]", "mem": 4096, "apples": 1.5, "disk(eng)": 100, "cpus": 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "cpus 4, mem 4096, disk(eng) 100, ports [31000-31009], apples 1.5"
	if got := show.Resources(resources); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := show.Resources(nil); got != "" {
		t.Errorf("none: got %q", got)
	}
}

func TestPercent(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", 1.0 / 3: "33.3%", 1: "100%"} {
		if got := show.Percent(share); got != want {
			t.Errorf("%v: got %q, want %q", share, got, want)
		}
	}
}
