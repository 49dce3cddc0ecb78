package words_test

import (
	"testing"

	"github.com/tenderhq/tender/internal/words"
)

func TestClosest(t *testing.T) {
	known := []string{"agents", "frameworks", "masters", "offers", "roles", "tasks"}
	for word, want := range map[string]string{
		"agnets": "agents", "task": "tasks", "tsaks": "tasks", "frame": "frameworks", "Masters": "masters", "bananas": "", "x": "",
	} {
		if got := words.Closest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
