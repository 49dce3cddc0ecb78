package admission_test

import (
	"testing"

	"github.com/tenderhq/tender/master/core/admission"
)

// TestPlacesInOrder: of the sessions that stand by for a name the first one that came is next, whoever waits for other
// names. One that has waited twice, or has left, gets no second turn.
func TestPlacesInOrder(t *testing.T) {
	places := admission.NewPlaces[int]()
	for _, s := range []int{1, 2, 3} {
		places.Wait("f", s)
		places.Wait("f", s)
	}
	places.Wait("other", 9)
	places.StopWaiting(2)
	for _, want := range []int{1, 3, 0} {
		if s, is := places.Next("f"); s != want || is != (want != 0) {
			t.Errorf("%d is next, not %d", s, want)
		}
	}
	if s, _ := places.Next("other"); s != 9 {
		t.Errorf("%d is next for the other name", s)
	}
}

// TestPlaceHasOneSeeker: only the session that asks for a place ends the asking, and only the framework that has a name
// gives it up.
func TestPlaceHasOneSeeker(t *testing.T) {
	places := admission.NewPlaces[int]()
	places.Seek("f", 1)
	if places.SeekDone("f", 2); !seeks(&places, "f", 1) {
		t.Error("the answer to another session ends the question")
	}
	if places.SeekDone("f", 1); seeks(&places, "f", 1) {
		t.Error("it still asks after its answer")
	}
	places.Give("f", "framework-1")
	if places.TakeBack("f", "framework-2"); places.Of("f") != "framework-1" {
		t.Errorf("%q has the name", places.Of("f"))
	}
	if places.TakeBack("f", "framework-1"); places.Of("f") != "" {
		t.Errorf("%q has the name that was taken back", places.Of("f"))
	}
}

func seeks(places *admission.Places[int], name string, s int) bool {
	seeker, is := places.Seeker(name)
	return is && seeker == s
}
