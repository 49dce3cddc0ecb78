package core

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/wire"
)

// wordsOf returns the IDs of tasks and launches, and the kinds of other operations.
func wordsOf(operations []api.Operation) string {
	var words []string
	for _, operation := range operations {
		if operation.Kind != api.OpLaunch {
			words = append(words, operation.Kind.String())
		}
		for _, task := range operation.Tasks {
			words = append(words, string(task.ID))
		}
		if operation.ID != "" {
			words = append(words, "("+string(operation.ID)+")")
		}
	}
	return strings.Join(words, " ")
}

// TestSplit: whatever the sizes, each task is in exactly one part and in order, no part is empty or larger than a
// message, and no two neighbours would fit into one.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var operations []api.Operation
		count := 0
		for range rapid.IntRange(1, 4).Draw(t, "operations") {
			operation := api.Operation{Kind: api.OpLaunch, ID: api.OperationID(rapid.SampledFrom([]string{"", "op"}).Draw(t, "id"))}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				operation = api.Operation{Kind: api.OpReserve, Resources: api.Scalars(1, 1)}
			case 1:
				operation.Kind = api.OpLaunchGroup
				for range rapid.IntRange(1, 4).Draw(t, "tasks") {
					count++
					task := api.Task{ID: api.TaskID(fmt.Sprint("t", count)), Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "true"}}
					task.Data = make([]byte, rapid.IntRange(0, api.GroupBytesMax/4-task.Bytes()).Draw(t, "bytes"))
					operation.Tasks = append(operation.Tasks, task)
				}
				if err := api.CheckTaskGroup(operation.Tasks); err != nil {
					t.Fatal(err)
				}
			default:
				for range rapid.IntRange(1, 8).Draw(t, "tasks") {
					count++
					task := api.Task{ID: api.TaskID(fmt.Sprint("t", count)), Resources: api.Scalars(1, 64), Command: &api.Command{Shell: "true"}}
					limit := acceptBytesMax - operationHead - task.Bytes()
					task.Data = make([]byte, rapid.OneOf(rapid.IntRange(0, limit), rapid.SampledFrom([]int{0, limit - 2, limit - 1, limit})).Draw(t, "bytes"))
					operation.Tasks = append(operation.Tasks, task)
				}
			}
			operations = append(operations, operation)
		}
		parts := split(operations)
		var together []string
		for i, part := range parts {
			if len(part) == 0 {
				t.Fatalf("part %d of %d is empty", i, len(parts))
			}
			together = append(together, wordsOf(part))
			batches, err := wire.SchedulerCallBatches([]protocol.NumberedCall{{Number: 1, Call: protocol.Accept{Offers: manyOffers(), Operations: part}}})
			if err != nil || proto.Size(batches[0]) > api.MessageBytesMax {
				t.Fatalf("part %d fits in no message: %v", i, err)
			}
			if i > 0 && sizeOf(parts[i-1])+sizeOf(part) <= acceptBytesMax {
				t.Fatalf("parts %d and %d fit into one", i-1, i)
			}
		}
		if got, want := strings.Join(together, " "), wordsOf(operations); got != want {
			t.Fatalf("split into %s, want %s", got, want)
		}
	})
}

func manyOffers() []api.OfferID {
	offers := make([]api.OfferID, api.OffersPerAnswerMax)
	for i := range offers {
		offers[i] = api.OfferID(fmt.Sprintf("offer-4294967296-%d", 1<<40+i))
	}
	return offers
}

func sizeOf(operations []api.Operation) int {
	size := 0
	for _, operation := range operations {
		size += operationSize(&operation)
		for i := range operation.Tasks {
			size += operation.Tasks[i].Bytes()
		}
	}
	return size
}
