package wire_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

func TestJSON(t *testing.T) {
	resources, err := api.ParseResources("cpus:4;disk(eng):100;mem:1024.5;ports:[31000-31009];zones:{a,b}")
	if err != nil {
		t.Fatal(err)
	}
	offers := &apiv1.ListOffersResponse{Items: []*apiv1.OfferView{{Id: "offer-1-1", AgentId: "agent-1", Resources: wire.ResourcesStruct(resources)}}}
	want := `{
  "items": [
    {
      "id": "offer-1-1",
      "framework_id": "",
      "framework_name": "",
      "agent_id": "agent-1",
      "hostname": "",
      "role": "",
      "resources": {
        "cpus": 4,
        "disk(eng)": 100,
        "mem": 1024.5,
        "ports": "[31000-31009]",
        "zones": "{a,b}"
      },
      "since": null,
      "expires": null
    }
  ],
  "next_page_token": ""
}
`
	for range 3 {
		got, err := wire.JSON(offers)
		if err != nil || string(got) != want {
			t.Fatalf("%v\n%s", err, got)
		}
	}
	read := new(apiv1.ListOffersResponse)
	if err := wire.FromJSON([]byte(want), read); err != nil || !proto.Equal(read, offers) {
		t.Fatalf("%v %v", err, read)
	}
	if empty, err := wire.JSON(&apiv1.ListTasksResponse{}); err != nil || !bytes.Contains(empty, []byte(`"items": []`)) {
		t.Fatalf("%v %s", err, empty)
	}
	if err := wire.FromJSON([]byte(`{"limt": 3}`), &apiv1.ListRequest{}); !api.Is(err, api.Invalid) {
		t.Fatal(err)
	}
	if _, err := wire.JSON(&apiv1.RoleView{Role: "\xff"}); err == nil {
		t.Fatal("wrote what is not UTF-8")
	}
}

func TestJSONWritesNumbersAsNumbers(t *testing.T) {
	view := &apiv1.ListFrameworksResponse{AppliedIndex: 1<<53 + 1, Items: []*apiv1.FrameworkView{{
		Session: 1 << 53, Labels: map[string]string{"a<é\"\u2028": "1", "b": "2"},
	}, {Session: 7}}}
	text, err := wire.JSON(view)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"applied_index": "9007199254740993"`, `"session": 9007199254740992,`, `"session": 7,`, `"since": null`, `"b": "2"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	read := new(apiv1.ListFrameworksResponse)
	if err := wire.FromJSON(text, read); err != nil || !proto.Equal(read, view) {
		t.Fatalf("%v %v", err, read)
	}
}

func TestResourcesForTables(t *testing.T) {
	text := "cpus:0.5;disk(eng,dynamic,volume=v1):100;ports:[1-3,9];zones:{a}"
	resources, err := api.ParseResources(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := wire.ResourcesText(wire.ResourcesStruct(resources)); got != text {
		t.Errorf("got %s", got)
	}
	if got := wire.ResourcesText(nil); got != "" {
		t.Errorf("got %q for nothing", got)
	}
	_, err = wire.ResourcesFromStruct(&structpb.Struct{Fields: map[string]*structpb.Value{"cpus": structpb.NewNumberValue(-1)}})
	if !api.Is(err, api.Invalid) {
		t.Error(err)
	}
}

// TestResourcesAreEncodedAlike: what is shown of many tasks is encoded without a message, and read as one.
func TestResourcesAreEncodedAlike(t *testing.T) {
	for _, text := range []string{"", "cpus:0.5;mem:64", "cpus:4;disk(eng):100;mem:1024.5;ports:[31000-31009,31020-31020];zones:{a,b}"} {
		resources, err := api.ParseResources(text)
		if err != nil {
			t.Fatal(err)
		}
		want := &apiv1.TaskView{Id: "t", Resources: wire.ResourcesStruct(resources)}
		got := new(apiv1.TaskView)
		field := want.ProtoReflect().Descriptor().Fields().ByName("resources").Number()
		encoded, err := proto.Marshal(&apiv1.TaskView{Id: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(wire.AppendResources(encoded, field, resources), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%q is read as %v, want %v (%v)", text, got, want, err)
		}
	}
}
