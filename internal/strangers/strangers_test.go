package strangers_test

import (
	"slices"
	"testing"

	"github.com/tenderhq/tender/internal/strangers"
)

// TestTheLongestSilentHasToGo: with one stranger too many, the oldest is evicted. One that has left, or was evicted,
// makes room only once.
func TestTheLongestSilentHasToGo(t *testing.T) {
	room := strangers.New(2)
	var gone []string
	enter := func(name string) (leave func()) {
		return room.Enter(func() { gone = append(gone, name) })
	}
	first := enter("first")
	second := enter("second")
	enter("third")
	if !slices.Equal(gone, []string{"first"}) || room.Len() != 2 {
		t.Fatalf("gone are %v, and %d are there", gone, room.Len())
	}
	first() // it has left already
	second()
	second()
	enter("fourth")
	if len(gone) != 1 || room.Len() != 2 {
		t.Errorf("there was room for one: gone are %v, and %d are there", gone, room.Len())
	}
	enter("fifth")
	if !slices.Equal(gone, []string{"first", "third"}) {
		t.Errorf("gone are %v", gone)
	}
}
