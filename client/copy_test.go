package client_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/words"
)

// TestACopyKeepsTheOrderOfTheLists whatever comes and goes between two looks, also under a name that was there before.
func TestACopyKeepsTheOrderOfTheLists(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var copied client.Copy
	there := map[string]string{}
	for range 500 {
		news := &apiv1.WatchResponse{Complete: true}
		for range random.IntN(6) {
			id, state := fmt.Sprint("t", random.IntN(40)), fmt.Sprint(random.IntN(9))
			if random.IntN(2) == 0 {
				news.Items = append(news.Items, &apiv1.Change{Removed: "task/f/" + id})
				delete(there, id)
				continue
			}
			news.Items = append(news.Items, &apiv1.Change{View: &apiv1.Change_Task{Task: &apiv1.TaskView{FrameworkId: "f", Id: id, State: state}}})
			there[id] = state
		}
		copied.Take(news)
		if random.IntN(3) > 0 {
			continue
		}
		var names []string
		for _, task := range copied.Tasks() {
			names = append(names, task.GetId())
			if same := copied.Get("task", "f/"+task.GetId()).GetTask(); same != task || there[task.GetId()] != task.GetState() {
				t.Fatalf("task %s is %v and %v, and was told as %s", task.GetId(), task, same, there[task.GetId()])
			}
		}
		if len(names) != len(there) || !slices.IsSortedFunc(names, words.CompareNatural) {
			t.Fatalf("the copy has %v; there is %v", names, there)
		}
	}
	if copied.Get("task", "f/t99") != nil || copied.Get("agent", "a") != nil {
		t.Error("the copy has what was never told")
	}
}
