package core_test

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/testing/transcript"
)

// acceptLine reads: accept f1 offer-1-1 t1=cpus:1;mem:32 t2=cpus:2 exec=e1/cpus:0.5 op=launch1
// and, for parts of one answer: more=yes after=2 (the number of a call, or the last); named=http names the
// first port of each task, and tier=front is a label. group=yes launches them as one group.
func (w *world) acceptLine(f *fakeFramework, args transcript.Line) {
	var operations []api.Operation
	for _, text := range args.Words[2:] { // such as reserve:cpus:1;mem:32 or create:v1:100
		operations = append(operations, operationOf(text))
	}
	operation := api.Operation{Kind: api.OpLaunch, ID: api.OperationID(args.Named["op"])}
	if args.Named["group"] == "yes" {
		operation.Kind = api.OpLaunchGroup
	}
	for _, name := range sortedNames(args.Named) {
		if slices.Contains([]string{"refuse", "exec", "op", "more", "after", "named", "tier", "job", "user", "owner", "group", "secrets"}, name) {
			continue
		}
		operation.Tasks = append(operation.Tasks, taskOf(name, args))
	}
	if len(operation.Tasks) > 0 {
		operations = append(operations, operation)
	}
	after := f.call
	if args.Named["after"] != "last" {
		after, _ = strconv.ParseUint(args.Named["after"], 10, 64)
	}
	w.call(f, protocol.Accept{Offers: offerIDs(args.Word(1)), Operations: operations, Filter: filterOf(args), More: args.Named["more"] == "yes", After: after})
}

func operationOf(text string) api.Operation {
	kind, rest, _ := strings.Cut(text, ":")
	kind, id, named := strings.Cut(kind, "@") // reserve@r1:cpus:1 has another ID, reserve@:cpus:1 none
	if !named {
		id = kind
	}
	operation := api.Operation{ID: api.OperationID(id)}
	switch kind {
	case "reserve", "unreserve":
		operation.Kind = api.OpReserve
		if kind == "unreserve" {
			operation.Kind = api.OpUnreserve
		}
		operation.Resources, _ = api.ParseResources(rest)
	case "create":
		volume, size, _ := strings.Cut(rest, ":")
		operation.Kind, operation.Volume = api.OpCreate, api.VolumeID(volume)
		operation.Size, _ = api.ParseMilli(size)
	case "destroy":
		operation.Kind, operation.Volume = api.OpDestroy, api.VolumeID(rest)
	}
	return operation
}

func taskOf(name string, args transcript.Line) api.Task {
	task := api.Task{ID: api.TaskID(name)}
	resources, err := api.ParseResources(args.Named[name])
	if err == nil {
		task.Resources = resources
	}
	if args.Named[name] == "large" {
		task.Resources, task.Data = api.Scalars(0.1, 0), make([]byte, api.TaskBytesMax+1)
	}
	if port := task.Resources.RangesOf("ports").First(1); len(port) > 0 && args.Named["named"] != "" {
		task.Ports = map[string]uint16{args.Named["named"]: uint16(port[0])}
	}
	if tier := args.Named["tier"]; tier != "" {
		task.Labels = map[string]string{"tier": tier}
	}
	if job := args.Named["job"]; job != "" {
		task.Labels = map[string]string{api.JobLabel: job}
	}
	task.Secrets, task.Owner = secretsOf(args), args.Named["owner"]
	executor, ask, own := strings.Cut(args.Named["exec"], "/")
	if !own {
		if executor != "none" {
			task.Command = &api.Command{Shell: "sleep 1", User: args.Named["user"]}
		}
		return task
	}
	task.Executor = &api.Executor{ID: api.ExecutorID(executor), Command: api.Command{Argv: []string{"executor"}}}
	task.Executor.Resources, _ = api.ParseResources(ask)
	return task
}
