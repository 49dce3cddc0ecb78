package api_test

import (
	"testing"

	"github.com/tenderhq/tender/api"
)

// Masters sum small bundles for every launch and every status.

var sink api.Resources

func bundles(b *testing.B) (node, task, ports api.Resources) {
	b.Helper()
	read := func(text string) api.Resources {
		r, err := api.ParseResources(text)
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	return read("cpus:64;disk:900000;mem:262144;ports:[31000-32000]"), read("cpus:0.1;mem:32"), read("cpus:0.1;mem:32;ports:[31500]")
}

func BenchmarkPlus(b *testing.B) {
	node, task, ports := bundles(b)
	for name, pair := range map[string][2]api.Resources{"same": {task, task}, "subset": {node, task}, "ports": {ports, ports}, "zero": {{}, task}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink = pair[0].Plus(pair[1])
			}
		})
	}
}

func BenchmarkMinus(b *testing.B) {
	node, task, ports := bundles(b)
	for name, pair := range map[string][2]api.Resources{"same": {task, task}, "subset": {node, task}, "ports": {node, ports}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = pair[0].Minus(pair[1])
			}
		})
	}
}

func BenchmarkContains(b *testing.B) {
	node, task, _ := bundles(b)
	b.ReportAllocs()
	for b.Loop() {
		if !node.Contains(task) {
			b.Fatal("it does")
		}
	}
}

func BenchmarkCarve(b *testing.B) {
	node, task, ports := bundles(b)
	for name, ask := range map[string]api.Resources{"scalars": task, "ports": ports} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _, _ = node.Carve(ask)
			}
		})
	}
}

func BenchmarkNewResources(b *testing.B) {
	_, task, _ := bundles(b)
	items := task.Items()
	b.ReportAllocs()
	for b.Loop() {
		sink = api.NewResources(items...)
	}
}

func BenchmarkCheckID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if api.CheckID("task ID", "task-123456") != nil {
			b.Fatal("it is one")
		}
	}
}
