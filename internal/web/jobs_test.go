package web_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/web"
)

// TestTheStepsOfAJobFitAPhone: however many steps there are, the graph is as wide as three, and each step stands below those
// that it waits for.
func TestTheStepsOfAJobFitAPhone(t *testing.T) {
	var list []any
	for i := range 7 {
		list = append(list, map[string]any{"name": fmt.Sprint("s", i)})
	}
	list = append(list, map[string]any{"name": "last", "after": []any{"s0", "s6"}}, map[string]any{"name": "end", "after": []any{"last"}})
	spec, err := structpb.NewStruct(map[string]any{"steps": list})
	if err != nil {
		t.Fatal(err)
	}
	cluster := answering("x")
	cluster.answers["GetJob"] = func() (proto.Message, error) { return &apiv1.JobStatus{Name: "x"}, nil }
	cluster.answers["GetJobHistory"] = func() (proto.Message, error) {
		return &apiv1.GetJobHistoryResponse{Items: []*apiv1.JobVersion{{Current: true, Job: spec}}}, nil
	}
	page := web.New(web.Config{Cluster: cluster})
	defer page.End()
	body := ask(page.Handler(), http.MethodGet, "/jobs/x").Body.String()
	box := regexp.MustCompile(`class="box [a-z]*" x="(\d+)" y="(\d+)"[^>]*></rect> <text[^>]*>(\w+)<`)
	tops := map[string]string{}
	for _, found := range box.FindAllStringSubmatch(body, -1) {
		if x, _ := strconv.Atoi(found[1]); x > 332 {
			t.Errorf("step %s begins at %d", found[3], x)
		}
		tops[found[3]] = found[2]
	}
	for step, top := range map[string]string{"s0": "0", "s3": "78", "s6": "156", "last": "234", "end": "312"} {
		if tops[step] != top {
			t.Errorf("step %s stands at %q, and should stand at %s", step, tops[step], top)
		}
	}
}
