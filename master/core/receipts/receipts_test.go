package receipts_test

import (
	"bytes"
	"testing"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/master/core/receipts"
)

// TestAReceiptIsOfOneLaunch: whatever is different of a launch, another key, and another text make another receipt.
func TestAReceiptIsOfOneLaunch(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	launch := receipts.Launch{Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3}
	receipt := receipts.Sign(key, launch)
	if len(receipt) != receipts.Bytes || !receipts.True(key, launch, receipt) {
		t.Fatalf("the receipt %x is not true", receipt)
	}
	others := map[string]receipts.Launch{
		"framework": {Framework: "f2", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3},
		"task":      {Framework: "f1", Task: "t2", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3},
		"agent":     {Framework: "f1", Task: "t1", Agent: "a2", Term: api.Term{Epoch: 1, Number: 2}, Number: 3},
		"epoch":     {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 2, Number: 2}, Number: 3},
		"term":      {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 3}, Number: 3},
		"number":    {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 4},
		"border":    {Framework: "f1t", Task: "1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3},
		"executor":  {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3, Executor: "e1"},
		"kind":      {Framework: "f1", Executor: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3},
		"role":      {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3, Role: "web"},
		"size":      {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3, Resources: api.Scalars(1, 0)},
		"owner":     {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3, Owner: "ann"},
		"secrets":   {Framework: "f1", Task: "t1", Agent: "a1", Term: api.Term{Epoch: 1, Number: 2}, Number: 3, Secrets: []api.Secret{{ID: "eng/db", Env: "DB"}}},
	}
	for what, other := range others {
		if receipts.True(key, other, receipt) {
			t.Errorf("it is true of a launch of another %s", what)
		}
	}
	bundles := []string{
		"cpus:1", "cpus:2", "cpus:1;mem:1", "mem:1", "cpus(web):1", "cpus(revocable):1", "ports:[1-2]", "ports:[1-3]", "ports:[1-1,3-3]",
		"disk(web):1", "gpus:{a,b}", "gpus:{ab}",
	}
	for _, one := range bundles {
		for _, other := range bundles {
			signed, asked := launch, launch
			signed.Resources, asked.Resources = resources(t, one), resources(t, other)
			if receipts.True(key, asked, receipts.Sign(key, signed)) != (one == other) {
				t.Errorf("the receipt for %s, shown for %s", one, other)
			}
		}
	}
	launch.Secrets = []api.Secret{{ID: "eng/db", Env: "DB"}, {ID: "eng/key", File: "key"}}
	for what, secrets := range map[string][]api.Secret{
		"none":        nil,
		"one of them": launch.Secrets[:1],
		"another":     {{ID: "eng/db", Env: "DB"}, {ID: "eng/other", File: "key"}},
		"the file":    {{ID: "eng/db", Env: "DB"}, {ID: "eng/key", Env: "key"}},
	} {
		other := launch
		if other.Secrets = secrets; receipts.True(key, other, receipts.Sign(key, launch)) {
			t.Errorf("the receipt of a launch with secrets is true with %s", what)
		}
	}
	launch.Secrets = nil
	for _, wrong := range []string{"", receipt[1:], receipt + "x", "\x00" + receipt[1:]} {
		if receipts.True(key, launch, wrong) {
			t.Errorf("%x is true as well", wrong)
		}
	}
	other := bytes.Repeat([]byte{8}, 32)
	if receipts.True(other, launch, receipt) || bytes.Equal(receipts.Mark(key), receipts.Mark(other)) || len(receipts.Mark(key)) != 32 {
		t.Error("another key is the same")
	}
}

func resources(t *testing.T, text string) api.Resources {
	t.Helper()
	parsed, err := api.ParseResources(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
