package api_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
)

func TestMilliComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := api.Milli(rapid.Int64Range(0, int64(api.MilliMax)).Draw(t, "milli"))
		if read, err := api.ParseMilli(m.String()); err != nil || read != m {
			t.Fatalf("%v reads as %v: %v", m, read, err)
		}
		if got := api.MilliOf(m.Float()); got != m {
			t.Fatalf("%v by way of a float is %v", m, got)
		}
		if negative := -m; m != 0 && negative.String() != "-"+m.String() {
			t.Fatalf("%s", negative)
		}
	})
}

func TestMilliText(t *testing.T) {
	for m, want := range map[api.Milli]string{0: "0", 1: "0.001", -1: "-0.001", 10: "0.01", 1500: "1.5", 1000: "1", math.MinInt64: "-9223372036854775.808"} {
		if got := m.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(m), got, want)
		}
	}
	for text, want := range map[string]api.Milli{"1": 1000, " 0.5 ": 500, ".5": 500, "5.": 5000, "1.2300": 1230, "007": 7000} {
		if got, err := api.ParseMilli(text); err != nil || got != want {
			t.Errorf("%q is %v: %v", text, got, err)
		}
	}
}

func TestBadMilli(t *testing.T) {
	for text, why := range map[string]string{
		"": "not a number", ".": "not a number", "x": "not a number", "1e3": "not a number", "1,5": "not a number", "1.2.3": "not a number",
		"+1": "not a number", "١": "not a number", "-0": "negative", "-": "negative", "0.0005": "finer than thousandths",
		"1000000000.001": "larger than 1000000000", "99999999999999999999": "larger than 1000000000",
	} {
		_, err := api.ParseMilli(text)
		if err == nil || !strings.Contains(err.Error(), " is "+why+"; write a number such as 2, 0.5 or 0.125") {
			t.Errorf("%q: %v, want %s", text, err, why)
		}
	}
}
