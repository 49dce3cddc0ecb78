package words_test

import (
	"testing"
	"time"

	"github.com/tenderhq/tender/internal/words"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                    "0 s",
		0:                               "0 s",
		time.Nanosecond:                 "0.1 s",
		414003856 * time.Nanosecond:     "0.5 s",
		2 * time.Second:                 "2 s",
		2500 * time.Millisecond:         "2.5 s",
		9999 * time.Millisecond:         "10 s",
		10001 * time.Millisecond:        "11 s",
		12 * time.Second:                "12 s",
		time.Minute:                     "1 min",
		150 * time.Second:               "2 min 30 s",
		time.Hour - time.Millisecond:    "1 h",
		time.Hour:                       "1 h",
		time.Hour + time.Second:         "1 h 1 min",
		24*time.Hour - time.Nanosecond:  "24 h",
		25 * time.Hour:                  "1 day 1 h",
		9*24*time.Hour + 3*time.Hour:    "9 days 3 h",
		7 * 24 * time.Hour:              "7 days",
		61*time.Minute + 30*time.Second: "1 h 2 min",
	} {
		if got := words.Span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
