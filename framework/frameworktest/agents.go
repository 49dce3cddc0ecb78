package frameworktest

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Agent is one agent of the cluster, with the machine on which it runs.
type Agent struct {
	handle  *Handle
	host    *host
	machine Machine

	power    context.CancelFunc // cancels its hold on the disk and the processes
	launcher *launcher
	life     runner
}

// AddAgent adds a machine with an agent and starts it.
func (h *Handle) AddAgent(machine Machine) *Agent {
	h.t.Helper()
	name := "agent-host-" + strconv.Itoa(len(h.agents)+1)
	machine.Hostname = cmp.Or(machine.Hostname, name)
	if machine.Resources.IsZero() {
		machine.Resources = h.cluster.Machine.Resources
	}
	a := &Agent{handle: h, host: newHost(h, name, machine.Resources), machine: machine}
	h.agents = append(h.agents, a)
	a.Start()
	return a
}

// Agent returns the agent with this number, from 1.
func (h *Handle) Agent(number int) *Agent { return h.agents[number-1] }

// Running reports whether the agent's process runs.
func (a *Agent) Running() bool { return a.life.runs() }

// Start starts the agent's process with its disk, unless it runs.
func (a *Agent) Start() {
	a.handle.t.Helper()
	if a.Running() {
		return
	}
	a.handle.network.isolate(a.host.name, false)
	dead, power := context.WithCancel(context.Background())
	a.power, a.launcher = power, &launcher{Launcher: a.host.launcher, dead: dead}
	run, err := a.assembleLife(dead)
	if err != nil {
		a.handle.t.Fatalf("%s: %v", a.host.name, err)
	}
	a.life.beginRun(context.Background(), a.handle, a.host.name, run)
}

// Kill ends the agent's process as kill -9 does. Its executors live on.
func (a *Agent) Kill() {
	if !a.Running() {
		return
	}
	a.power()
	a.handle.network.crash(a.host.name)
	a.life.endRun()
	a.launcher.abandon()
	a.handle.network.crash(a.host.name)
	a.handle.network.isolate(a.host.name, false)
}

// Stop ends the agent's process in order. Its executors live on.
func (a *Agent) Stop() { a.life.endRun() }

// Reboot ends everything on the machine; the agent stays down until Start is called.
func (a *Agent) Reboot() {
	a.handle.t.Helper()
	a.Kill()
	a.handle.journal.excuseHost(a.host.name, a.knownID(), "", a.host.name+" rebooted")
	if err := a.host.launcher.KillEverything(context.Background()); err != nil {
		a.handle.t.Fatal(err)
	}
	a.host.mu.Lock()
	a.host.boot++
	a.host.mu.Unlock()
}

// KillExecutor ends one of the executors on the machine, with its tasks, as kill -9 does. number, modulo the number of
// executors, chooses which. If there are none it does nothing.
func (a *Agent) KillExecutor(number int) {
	running := a.host.listProcesses()
	if len(running) == 0 {
		return
	}
	p := running[number%len(running)]
	a.handle.journal.excuseHost(a.host.name, a.knownID(), p.id.Framework, p.name+" was killed")
	a.handle.journal.noteCrash(a.knownID())
	p.kill()
}

// Isolate cuts the machine off from all others. Its agent and its executors go on.
func (a *Agent) Isolate() { a.handle.network.isolate(a.host.name, true) }

// Rejoin undoes Isolate.
func (a *Agent) Rejoin() { a.handle.network.isolate(a.host.name, false) }

// knownID returns the ID that is on the agent's disk; "" before its first contact.
func (a *Agent) knownID() api.AgentID { return a.host.agentID() }

// ID returns the agent's ID in the cluster. It waits until there is one.
func (a *Agent) ID() api.AgentID {
	a.handle.t.Helper()
	a.handle.Await(a.host.name+" to be admitted", func() bool { return a.knownID() != "" })
	return a.knownID()
}

// Tasks lists the tasks that really run on the machine.
func (a *Agent) Tasks() []api.TaskRef { return a.handle.journal.runningOn(a.host.name) }

func (a *Agent) describeAgent() string {
	var parts []string
	if a.Running() {
		parts = append(parts, "runs")
	} else {
		parts = append(parts, fmt.Sprintf("ended: %v", a.life.err))
	}
	for _, p := range a.host.listProcesses() {
		parts = append(parts, p.name)
	}
	for _, ref := range a.Tasks() {
		parts = append(parts, ref.String())
	}
	return strings.Join(parts, ", ")
}
