package wire_test

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// Generators of every noun and message, valid as an honest peer sends them.

type gen struct{ t *rapid.T }

func (g gen) bool() bool { return rapid.Bool().Draw(g.t, "bool") }

func (g gen) n(limit int) int { return rapid.IntRange(0, limit).Draw(g.t, "n") }

func (g gen) number() uint64 { return rapid.Uint64Range(1, 1<<60).Draw(g.t, "number") }

func (g gen) id() string { return rapid.StringMatching(`[a-zé][a-zA-Z0-9._-]{0,12}`).Draw(g.t, "id") }

func (g gen) maybeID() string {
	if g.bool() {
		return ""
	}
	return g.id()
}

func (g gen) text() string { return rapid.StringMatching(`[ -~äß€😀]{0,20}`).Draw(g.t, "text") }

func (g gen) data() []byte {
	if g.bool() {
		return nil
	}
	return rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(g.t, "data")
}

func (g gen) duration() time.Duration {
	return time.Duration(rapid.Int64Range(0, int64(api.DurationMax)).Draw(g.t, "duration"))
}

func (g gen) time() time.Time {
	if g.bool() {
		return time.Time{}
	}
	return time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(g.t, "s"), rapid.Int64Range(0, 999_999_999).Draw(g.t, "ns")).UTC()
}

func (g gen) words() map[string]string {
	if g.bool() {
		return nil
	}
	return rapid.MapOfN(rapid.StringMatching(`[a-z]{1,8}`), rapid.StringMatching(`[ -~ä]{0,8}`), 1, 4).Draw(g.t, "words")
}

func (g gen) role() api.Role {
	return api.Role(rapid.SampledFrom([]string{"default", "eng", "eng/web", "ops/db/eu", "é"}).Draw(g.t, "role"))
}

func (g gen) roles() []api.Role {
	return some(g, 3, func() api.Role { return api.Role(g.id()) }, func(a, b api.Role) bool { return a == b })
}

// some makes a list of up to limit different items, nil when it is empty.
func some[T any](g gen, limit int, one func() T, same func(a, b T) bool) []T {
	var list []T
next:
	for range g.n(limit) {
		item := one()
		for _, known := range list {
			if same != nil && same(item, known) {
				continue next
			}
		}
		list = append(list, item)
	}
	return list
}

func (g gen) ids(limit int) []string { return some(g, limit, g.id, nil) }

func typedIDs[S ~string](ids []string) []S {
	var all []S
	for _, id := range ids {
		all = append(all, S(id))
	}
	return all
}

func (g gen) atLeastOne() []api.OfferID {
	return append(typedIDs[api.OfferID](g.ids(3)), api.OfferID(g.id()))
}

func (g gen) term() api.Term { return api.Term{Epoch: g.number() - 1, Number: g.number()} }

func (g gen) amount() api.Milli { return api.Milli(rapid.Int64Range(1, 1e9).Draw(g.t, "milli")) }

func (g gen) resource() api.Resource {
	item := api.Resource{}
	switch g.n(3) {
	case 0:
		item.Name = "ports"
		begin := rapid.Uint64Range(0, 70000).Draw(g.t, "begin")
		item.Ranges = api.NewRanges(api.Range{Begin: begin, End: begin + uint64(g.n(99))}, api.Range{Begin: begin + 200, End: begin + 300})
	case 1:
		item.Name, item.Set = "zones", api.NewSet(append(g.ids(3), g.id())...)
	case 2:
		item.Name, item.Scalar = "disk", g.amount()
		if g.bool() {
			item.Reserved, item.Dynamic, item.Volume = g.role(), g.bool(), api.VolumeID(g.maybeID())
			if item.Dynamic {
				item.Tag = g.maybeID()
			}
		}
	default:
		item.Name, item.Scalar, item.Revocable = rapid.SampledFrom([]string{"cpus", "mem", "licences"}).Draw(g.t, "name"), g.amount(), g.bool()
	}
	return item
}

func (g gen) volume() protocol.Volume {
	label := api.Label{Name: "disk", Reserved: g.role(), Dynamic: g.bool(), Volume: api.VolumeID(g.id())}
	return protocol.Volume{Resource: api.Resource{Label: label, Scalar: g.amount()}, Generation: g.number()}
}

func (g gen) resources() api.Resources { return api.NewResources(some(g, 5, g.resource, nil)...) }

func (g gen) usage() api.Usage {
	return api.Usage{At: g.time(), CPU: g.amount(), CPUs: g.duration(), Mem: g.amount(), Procs: g.n(1000)}
}

func (g gen) taskRef() api.TaskRef {
	return api.TaskRef{Framework: api.FrameworkID(g.id()), Task: api.TaskID(g.id())}
}

func (g gen) executorRef() api.ExecutorRef {
	return api.ExecutorRef{Framework: api.FrameworkID(g.id()), Executor: api.ExecutorID(g.id())}
}

func (g gen) usageReport() protocol.UsageReport {
	report := protocol.UsageReport{Total: g.usage()}
	for range g.n(3) {
		if report.Tasks == nil {
			report.Tasks, report.Executors = map[api.TaskRef]api.Usage{}, map[api.ExecutorRef]api.Usage{}
		}
		report.Tasks[g.taskRef()] = g.usage()
		report.Executors[g.executorRef()] = g.usage()
	}
	return report
}

func (g gen) command() api.Command {
	command := api.Command{Env: g.words(), User: g.maybeID(), Dir: "/" + g.maybeID()}
	if g.bool() {
		command.Shell = "echo " + g.text()
	} else {
		command.Argv = append([]string{"sh"}, some(g, 3, g.text, nil)...)
	}
	for range g.n(2) {
		command.URIs = append(command.URIs, api.URI{Source: "file:///" + g.id(), Name: g.maybeID(), Executable: g.bool(), Extract: g.bool()})
	}
	return command
}

func (g gen) executor() api.Executor {
	return api.Executor{ID: api.ExecutorID(g.id() + "x"), Command: g.command(), Resources: g.resources(), Data: g.data(),
		ShutdownGrace: g.duration(), Labels: g.words()}
}

func (g gen) task() api.Task {
	task := api.Task{ID: api.TaskID(g.id()), Name: g.text(), Resources: g.resources().Firm().Plus(api.Scalars(1, 1)), Data: g.data(),
		KillGrace: g.duration(), MaxCompletionTime: g.duration(), Labels: g.words(), Group: g.maybeID(), KillSignal: rapid.SampledFrom([]string{"", "SIGINT"}).Draw(g.t, "kill signal")}
	if g.bool() {
		executor := g.executor()
		executor.Resources = executor.Resources.Firm() // an executor outlives its revoked tasks
		task.Executor = &executor
	} else {
		command := g.command()
		task.Command = &command
		task.Image = rapid.SampledFrom([]string{"", "alpine", "docker.io/library/alpine:3.20", "[::1]:5000/a@sha256:00"}).Draw(g.t, "image")
	}
	if g.bool() {
		task.Resources = task.Resources.Plus(api.NewResources(api.Resource{
			Label: api.Label{Name: "ports"}, Ranges: api.NewRanges(api.Range{Begin: 80, End: 90})}))
		task.Ports = map[string]uint16{"http": uint16(80 + g.n(10))}
		task.Checks = g.checks()
	}
	if task.Executor == nil && g.bool() {
		command := g.command()
		command.URIs, command.User, command.Dir = nil, "", ""
		task.Checks = append(task.Checks, api.Check{Command: &command, Interval: api.CheckIntervalMin + g.duration()/2})
	}
	task.Secrets = g.secrets()
	if g.bool() {
		task.Limits = api.Limits{CPUs: api.Milli(g.n(1000)), Mem: task.Resources.Scalar("mem") + api.Milli(g.n(1000)), Pids: int64(g.n(9))}
		task.Placement = api.Placement{Level: api.PlacementLevel(1 + g.n(2)), Waited: g.duration(), Idle: g.duration()}
	}
	return task
}

func (g gen) secrets() []api.Secret {
	var secrets []api.Secret
	for i := range g.n(3) {
		secret := api.Secret{ID: api.SecretID("eng/" + g.id()), Env: fmt.Sprint("SECRET_", i)}
		if g.bool() {
			secret.Env, secret.File = "", fmt.Sprint("file", i)
		}
		secrets = append(secrets, secret)
	}
	return secrets
}

func (g gen) secretValues() []protocol.SecretValue {
	var values []protocol.SecretValue
	for range g.n(3) {
		values = append(values, protocol.SecretValue{ID: api.SecretID(g.id()), Value: g.data()})
	}
	return values
}

func (g gen) checks() []api.Check {
	var checks []api.Check
	for range g.n(3) {
		check := api.Check{Readiness: g.bool(), Timeout: g.duration(), Grace: g.duration(), Failures: g.n(9)}
		switch g.n(2) {
		case 0:
			check.HTTP = &api.HTTPCheck{Port: "http", Path: "/" + g.maybeID()}
		case 1:
			check.TCP = &api.TCPCheck{Port: "http"}
		default:
			check.GRPC = &api.GRPCCheck{Port: "http", Service: g.maybeID()}
		}
		checks = append(checks, check)
	}
	return checks
}

func (g gen) state() api.TaskState { return api.TaskState(1 + g.n(int(api.TaskUnknown)-1)) }

func (g gen) reason() api.Reason { return api.Reason(g.n(int(api.ReasonTaskGroupFailed))) }

func (g gen) exit() *int {
	if g.bool() {
		return nil
	}
	code := g.n(255)
	return &code
}

func (g gen) healthy() *bool {
	if g.bool() {
		return nil
	}
	healthy := g.bool()
	return &healthy
}

func (g gen) output() *api.OutputSize {
	if g.bool() {
		return nil
	}
	return &api.OutputSize{Stdout: int64(g.n(5000)), Stderr: int64(g.n(5000))}
}

func (g gen) status() api.Status {
	return api.Status{Framework: api.FrameworkID(g.id()), Task: api.TaskID(g.id()), Agent: api.AgentID(g.maybeID()),
		Executor: api.ExecutorID(g.maybeID()), Number: g.number() - 1, State: g.state(), Reason: g.reason(), Message: g.text(),
		Source: rapid.SampledFrom([]api.Mover{0, api.MoverMaster, api.MoverAgent, api.MoverExecutor}).Draw(g.t, "source"),
		At:     g.time(), Data: g.data(), ExitCode: g.exit(), Healthy: g.healthy(),
		Previous: g.number() - 1, Output: g.output(), Launch: api.LaunchID{Term: g.term(), Number: g.number()},
		Given: api.Given{Image: g.text(), GPUs: some(g, 3, func() uint32 { return uint32(g.number()) }, nil)},
		Whereabouts: api.Whereabouts{Hostname: g.text(), Region: g.text(), Zone: g.text(), Labels: g.words(),
			Ports: rapid.SampledFrom([]map[string]uint16{nil, {"http": 80}, {"a": 1, "b": 65535}}).Draw(g.t, "ports")}}
}

func (g gen) agent() api.Agent {
	return api.Agent{ID: api.AgentID(g.id()), Hostname: g.text(), Resources: g.resources(), Attributes: g.words(), Region: g.text(),
		Zone: g.text(), Address: g.text(), Version: g.text()}
}

func (g gen) framework() api.Framework {
	return api.Framework{ID: api.FrameworkID(g.id()), Name: g.id(), Principal: g.text(), Roles: g.roles(), FailoverTimeout: g.duration() % api.FailoverTimeoutMax,
		Standby: g.bool(), Constraint: g.text(), MinOffer: g.resources(), MaxOffer: g.resources(), Revocable: g.bool(),
		Labels: g.words(), Endpoints: g.words()}
}

func (g gen) offer() api.Offer {
	offer := api.Offer{ID: api.OfferID(g.id()), Framework: api.FrameworkID(g.id()), Agent: api.AgentID(g.id()), Role: g.role(),
		Resources: g.resources(), Hostname: g.text(), Attributes: g.words(), Region: g.text(), Zone: g.text(),
		Executors: typedIDs[api.ExecutorID](g.ids(2)), Timeout: g.duration()}
	if g.bool() {
		offer.Unavailable = &api.Window{Start: g.time(), Duration: g.duration()}
	}
	return offer
}

func (g gen) inverseOffer() api.InverseOffer {
	return api.InverseOffer{ID: api.OfferID(g.id()), Agent: api.AgentID(g.id()), Resources: g.resources(),
		Tasks: typedIDs[api.TaskID](g.ids(2)), Deadline: g.time(), Reason: g.reason()}
}

func (g gen) operation() api.Operation {
	operation := api.Operation{ID: api.OperationID(g.maybeID()), Kind: api.OperationKind(1 + g.n(5))}
	switch operation.Kind {
	case api.OpLaunch, api.OpLaunchGroup:
		operation.Tasks = some(g, 3, g.task, nil)
	case api.OpCreate, api.OpDestroy:
		operation.Volume, operation.Size, operation.Tag = api.VolumeID(g.id()), g.amount(), g.maybeID()
	default:
		operation.Resources = g.resources()
	}
	return operation
}

func (g gen) shape() api.Shape {
	return api.Shape{Resources: g.resources(), Count: int64(1 + g.n(1e6)), Constraint: g.text(),
		Preferred: typedIDs[api.AgentID](g.ids(2)), OnlyPreferred: g.bool()}
}

func (g gen) filter() api.Filter {
	if g.bool() {
		return api.NoFilter
	}
	return api.Filter{Refuse: g.duration()}
}

func (g gen) unsettled() []protocol.UnsettledTask {
	return some(g, 3, func() protocol.UnsettledTask {
		return protocol.UnsettledTask{Task: api.TaskID(g.id()), Agent: api.AgentID(g.maybeID()), Number: g.number() - 1,
			State: api.TaskState(g.n(int(api.TaskUnknown)))}
	}, nil)
}

func (g gen) error() *api.Error {
	err := &api.Error{Op: g.text(), Kind: api.Kind(g.n(int(api.Unsupported))), Subject: g.text()}
	switch {
	case err.Kind == api.NotLeader:
		return &api.Error{Op: err.Op, Kind: api.NotLeader, Err: notLeader(g.maybeID())}
	case g.bool():
		err.Err = errors.New("because " + g.text())
	}
	return err.RetryIn(time.Duration(g.n(1000)) * time.Millisecond)
}

// schedulerCalls has one maker for each type of call.
func (g gen) schedulerCalls() []func() protocol.SchedulerCall {
	return []func() protocol.SchedulerCall{
		func() protocol.SchedulerCall {
			return protocol.Subscribe{Cluster: api.ClusterID(g.maybeID()), Term: g.term(), Version: g.text(), Framework: g.framework(),
				Instance: api.Nonce(g.id()), Suppressed: g.roles(), TellLater: g.bool()}
		},
		func() protocol.SchedulerCall { return protocol.Unsettled{Tasks: g.unsettled(), Last: g.bool()} },
		func() protocol.SchedulerCall {
			return protocol.Accept{Offers: g.atLeastOne(), Operations: some(g, 3, g.operation, nil), Filter: g.filter()}
		},
		func() protocol.SchedulerCall { return protocol.Decline{Offers: g.atLeastOne(), Filter: g.filter()} },
		func() protocol.SchedulerCall {
			return protocol.Kill{Task: api.TaskID(g.id()), Agent: api.AgentID(g.maybeID()), Grace: g.duration()}
		},
		func() protocol.SchedulerCall {
			return protocol.Acknowledge{Items: some(g, 3, func() protocol.Acknowledgement {
				return protocol.Acknowledgement{Framework: api.FrameworkID(g.maybeID()), Task: api.TaskID(g.id()),
					Agent: api.AgentID(g.maybeID()), Number: g.number()}
			}, nil)}
		},
		func() protocol.SchedulerCall { return protocol.Reconcile{Tasks: g.unsettled()} },
		func() protocol.SchedulerCall {
			return protocol.ReconcileOperations{Operations: typedIDs[api.OperationID](g.ids(3))}
		},
		func() protocol.SchedulerCall {
			return protocol.JobEvent{Event: api.JobEvent{Job: g.id(), What: "updated", Why: g.maybeID(), Role: g.role(), Owner: g.maybeID(), Routine: g.bool()}}
		},
		func() protocol.SchedulerCall {
			return protocol.JobDemand{Wanted: map[string]int64{g.id(): 1 + int64(g.n(9)), api.OtherJobs: 3}}
		},
		func() protocol.SchedulerCall { return protocol.Suppress{Roles: g.roles()} },
		func() protocol.SchedulerCall { return protocol.Revive{Roles: g.roles()} },
		func() protocol.SchedulerCall {
			return protocol.SetDemand{Demand: api.Demand{Role: g.role(), Shapes: some(g, 3, g.shape, nil)}, Unstated: g.bool()}
		},
		func() protocol.SchedulerCall {
			return protocol.MessageExecutor{Agent: api.AgentID(g.id()), Executor: api.ExecutorID(g.id()), Data: g.data()}
		},
		func() protocol.SchedulerCall {
			return protocol.ShutdownExecutor{Agent: api.AgentID(g.id()), Executor: api.ExecutorID(g.id())}
		},
		func() protocol.SchedulerCall { return protocol.AnswerInverse{Offers: g.atLeastOne(), Accept: g.bool()} },
		func() protocol.SchedulerCall { return protocol.UpdateFramework{Framework: g.framework()} },
		func() protocol.SchedulerCall { return protocol.Teardown{} },
		func() protocol.SchedulerCall { return protocol.SchedulerHeartbeat{} },
	}
}

func (g gen) schedulerEvents() []func() protocol.SchedulerEvent {
	return []func() protocol.SchedulerEvent{
		func() protocol.SchedulerEvent {
			return protocol.Subscribed{Cluster: api.ClusterID(g.id()), Framework: api.FrameworkID(g.id()), Session: g.number(), Turn: g.number(),
				HeartbeatInterval: g.duration(), SessionTimeout: g.duration(), Master: api.MasterID(g.id()), Masters: g.ids(3)}
		},
		func() protocol.SchedulerEvent { return protocol.Waiting{ActiveInstance: api.Nonce(g.id())} },
		func() protocol.SchedulerEvent {
			return protocol.Offers{Offers: append(some(g, 3, g.offer, nil), g.offer())}
		},
		func() protocol.SchedulerEvent { return protocol.Rescind{Offers: g.atLeastOne(), Why: g.text()} },
		func() protocol.SchedulerEvent { return protocol.Update{Status: g.status()} },
		func() protocol.SchedulerEvent { return protocol.Refused{Number: g.number(), Err: g.error()} },
		func() protocol.SchedulerEvent {
			result := protocol.OperationResult{ID: api.OperationID(g.id()), Agent: api.AgentID(g.id())}
			if g.bool() {
				result.Err = g.error()
			}
			return result
		},
		func() protocol.SchedulerEvent {
			return protocol.InverseOffers{Offers: append(some(g, 3, g.inverseOffer, nil), g.inverseOffer())}
		},
		func() protocol.SchedulerEvent { return protocol.RescindInverse{Offers: g.atLeastOne(), Why: g.text()} },
		func() protocol.SchedulerEvent {
			return protocol.MessageFramework{Agent: api.AgentID(g.id()), Executor: api.ExecutorID(g.id()), Data: g.data()}
		},
		func() protocol.SchedulerEvent {
			return protocol.ExecutorLost{Agent: api.AgentID(g.id()), Executor: api.ExecutorID(g.id()), Message: g.text()}
		},
		func() protocol.SchedulerEvent {
			return protocol.AgentLost{Agent: api.AgentID(g.id()), Gone: g.bool(), Why: g.text()}
		},
		func() protocol.SchedulerEvent { return protocol.MasterHeartbeat{Masters: g.ids(3)} },
		func() protocol.SchedulerEvent { return protocol.Settled{} },
		func() protocol.SchedulerEvent { return protocol.FrameworkUpdated{Number: g.number()} },
	}
}

func (g gen) agentCalls() []func() protocol.AgentCall {
	return []func() protocol.AgentCall{
		func() protocol.AgentCall {
			return protocol.RegisterAgent{Cluster: api.ClusterID(g.maybeID()), Version: g.text(), Agent: g.agent(),
				Nonce: api.Nonce(g.id()), BootID: g.text()}
		},
		func() protocol.AgentCall {
			return protocol.ReregisterAgent{Cluster: api.ClusterID(g.id()), Term: g.term(), Version: g.text(), Agent: g.agent(),
				Nonce: api.Nonce(g.maybeID()), BootID: g.text()}
		},
		func() protocol.AgentCall { return g.report(3) },
		func() protocol.AgentCall { return protocol.AgentHeartbeat{Usage: g.usageReport(), Unable: g.text()} },
		func() protocol.AgentCall { return protocol.StatusUpdate{Status: g.status()} },
		func() protocol.AgentCall {
			return protocol.ExecutorEnded{ExecutorRef: g.executorRef(), Message: g.text(), Again: g.bool(), NextLaunch: g.number()}
		},
		func() protocol.AgentCall {
			return protocol.MessageFromExecutor{ExecutorRef: g.executorRef(), Data: g.data()}
		},
		func() protocol.AgentCall { return protocol.KillTaken{TaskRef: g.taskRef()} },
		func() protocol.AgentCall {
			return protocol.VolumeDone{Volume: api.VolumeID(g.id()), Generation: g.number(), Err: g.text()}
		},
		func() protocol.AgentCall { return protocol.NeedSecrets{TaskRef: g.taskRef()} },
	}
}

func (g gen) receipt() string {
	if g.bool() {
		return ""
	}
	return "sixteen bytes \x00\xff"
}

func (g gen) report(limit int) protocol.AgentReport {
	report := protocol.AgentReport{Session: g.number(), Volumes: some(g, 3, g.volume, nil), Last: g.bool(), Rebooted: g.bool()}
	report.Tasks = some(g, limit, func() protocol.ReportedTask {
		return protocol.ReportedTask{Task: g.task(), Framework: api.FrameworkID(g.id()), Role: g.role(), Resources: g.resources(),
			Status: g.status(), Ended: g.bool(), LaunchedAt: g.time(),
			Receipt: g.receipt()}
	}, nil)
	report.Executors = some(g, limit, func() protocol.ReportedExecutor {
		return protocol.ReportedExecutor{Executor: g.executor(), Framework: api.FrameworkID(g.id()), Role: g.role(), Resources: g.resources()}
	}, nil)
	report.Frameworks = some(g, limit, g.framework, nil)
	report.Stubs = some(g, limit, func() protocol.TaskStub {
		return protocol.TaskStub{TaskRef: g.taskRef(), Name: g.text(), Role: g.role(), Status: g.status(), LaunchedAt: g.time()}
	}, nil)
	if g.bool() {
		usage := g.usageReport()
		report.Usage = &usage
	}
	return report
}

func (g gen) launch() protocol.LaunchTask {
	return protocol.LaunchTask{Task: g.task(), Framework: g.framework(), Role: g.role(), Resources: g.resources(),
		ExecutorResources: g.resources(), Number: g.number(), Receipt: g.receipt()}
}

// group is one of launches of one framework.
func (g gen) group() protocol.LaunchGroup {
	group := protocol.LaunchGroup{Tasks: []protocol.LaunchTask{g.launch(), g.launch(), g.launch()}}
	for i := range group.Tasks {
		group.Tasks[i].Framework = group.Tasks[0].Framework
	}
	return group
}

func (g gen) agentEvents() []func() protocol.AgentEvent {
	return []func() protocol.AgentEvent{
		func() protocol.AgentEvent {
			return protocol.AgentRegistered{Cluster: api.ClusterID(g.id()), Agent: api.AgentID(g.id()), HeartbeatInterval: g.duration(),
				SessionTimeout: g.duration(), Masters: g.ids(3)}
		},
		func() protocol.AgentEvent { return protocol.Reported{} },
		func() protocol.AgentEvent { return g.launch() },
		func() protocol.AgentEvent { return g.group() },
		func() protocol.AgentEvent {
			return protocol.KillTask{TaskRef: g.taskRef(), Grace: g.duration(), Reason: g.reason()}
		},
		func() protocol.AgentEvent {
			return protocol.AcknowledgeStatus{TaskRef: g.taskRef(), Number: g.number()}
		},
		func() protocol.AgentEvent { return protocol.ShutdownAgentExecutor{ExecutorRef: g.executorRef()} },
		func() protocol.AgentEvent {
			return protocol.MessageToExecutor{ExecutorRef: g.executorRef(), Data: g.data()}
		},
		func() protocol.AgentEvent { return protocol.RemoveFramework{Framework: api.FrameworkID(g.id())} },
		func() protocol.AgentEvent { return protocol.Drain{On: g.bool(), Grace: g.duration()} },
		func() protocol.AgentEvent { return protocol.AgentGone{Why: g.text()} },
		func() protocol.AgentEvent { return protocol.CreateVolume{Volume: g.volume()} },
		func() protocol.AgentEvent {
			return protocol.DestroyVolume{Volume: api.VolumeID(g.id()), Generation: g.number()}
		},
		func() protocol.AgentEvent { return protocol.SendAgain{TaskRef: g.taskRef()} },
		func() protocol.AgentEvent {
			return protocol.PrincipalChanged{Principal: g.text(), Until: g.time(), Revoked: g.bool(), Views: g.bool()}
		},
		func() protocol.AgentEvent {
			return protocol.TaskSecrets{TaskRef: g.taskRef(), Values: g.secretValues(), Why: g.text()}
		},
		func() protocol.AgentEvent {
			return protocol.AgentPong{ReturnWithin: g.duration(), HeartbeatInterval: g.duration(), SessionTimeout: g.duration()}
		},
	}
}

func (g gen) executorStatus() protocol.ExecutorStatus {
	return protocol.ExecutorStatus{Task: api.TaskID(g.id()), Number: g.number(), State: g.state(), Reason: g.reason(), Message: g.text(),
		Data: g.data(), ExitCode: g.exit(), Healthy: g.healthy(), Output: g.output(), Progress: g.bool(), ProcessGroup: 2 * g.n(5000), ProcessStart: g.number()}
}

func (g gen) executorCalls() []func() protocol.ExecutorCall {
	return []func() protocol.ExecutorCall{
		func() protocol.ExecutorCall {
			return protocol.SubscribeExecutor{More: g.number()%2 == 0, ExecutorRef: g.executorRef(), Token: strconv.FormatUint(g.number(), 16), Version: g.text(),
				Tasks: typedIDs[api.TaskID](g.ids(3)), Unacknowledged: some(g, 3, g.executorStatus, nil)}
		},
		func() protocol.ExecutorCall { return g.executorStatus() },
		func() protocol.ExecutorCall { return protocol.ExecutorMessage{Data: g.data()} },
		func() protocol.ExecutorCall { return protocol.ExecutorHeartbeat{} },
	}
}

func (g gen) executorEvents() []func() protocol.ExecutorEvent {
	return []func() protocol.ExecutorEvent{
		func() protocol.ExecutorEvent {
			return protocol.ExecutorSubscribed{Agent: api.AgentID(g.id()), Hostname: g.text(), Executor: g.executor(),
				Framework: g.framework(), RecoveryTimeout: g.duration()}
		},
		func() protocol.ExecutorEvent {
			launch := protocol.ExecutorLaunch{Task: g.task(), Sandbox: g.text(), Shared: g.text()}
			if g.bool() {
				launch.Secrets = map[string]protocol.Hidden{"A": g.data(), "B": {1}}
			}
			return launch
		},
		func() protocol.ExecutorEvent {
			return protocol.ExecutorKill{Task: api.TaskID(g.id()), Grace: g.duration()}
		},
		func() protocol.ExecutorEvent {
			return protocol.ExecutorAcknowledged{Task: api.TaskID(g.id()), Number: g.number()}
		},
		func() protocol.ExecutorEvent { return protocol.ExecutorMessage{Data: g.data()} },
		func() protocol.ExecutorEvent { return protocol.ExecutorShutdown{Grace: g.duration()} },
	}
}
