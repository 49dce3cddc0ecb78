package core

import (
	"fmt"
	"testing"

	"github.com/tenderhq/tender/api"
)

// TestQuestionsAreKeptInPieces: questions come out in order, and no piece grows with their number. Otherwise a round of
// the loop would take as long as copying all of them.
func TestQuestionsAreKeptInPieces(t *testing.T) {
	var q questions
	put, got := 0, 0
	push := func(n int) {
		for range n {
			q.push(question{task: api.TaskID(fmt.Sprint(put))})
			put++
		}
	}
	drop := func(n int) {
		for range n {
			if task := q.first().task; task != api.TaskID(fmt.Sprint(got)) {
				t.Fatalf("number %d is %s", got, task)
			}
			q.drop()
			got++
		}
	}
	push(1)
	drop(1)
	push(questionsPerPiece/2 + 1)
	drop(questionsPerPiece / 2)
	push(100 * questionsPerPiece)
	drop(50*questionsPerPiece + 1)
	for _, piece := range q.pieces {
		if len(piece) > questionsPerPiece {
			t.Errorf("a piece holds %d", len(piece))
		}
	}
	if want := put - got; q.count != want || len(q.pieces) > want/questionsPerPiece+2 {
		t.Errorf("%d of %d are left, in %d pieces", q.count, want, len(q.pieces))
	}
	drop(q.count)
	if q.count != 0 || len(q.pieces) != 0 {
		t.Errorf("%d are left in %d pieces", q.count, len(q.pieces))
	}
}
