// Package dev is a whole cluster on this machine for as long as one command runs: masters and agents in one process (or
// in processes of their own), on loopback, with data in one folder. It leaves nothing behind but a folder that was
// asked for. Its caller says how a master or an agent is run.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Config says what to start. All fields but Dir and Processes must be set.
type Config struct {
	Masters, Agents int
	// Dir keeps the data. Default: a temporary folder, removed at the end.
	Dir string
	// Processes, AgentProcesses: each master, or each agent, is a child process, so that it can be killed alone.
	Processes, AgentProcesses bool
	// RunMaster and RunAgent run a master or an agent until the context ends.
	RunMaster func(context.Context, Master) error
	RunAgent  func(context.Context, Agent) error
	// RunJobs runs a job manager that joins with the token, until the context ends; nil: there is none.
	RunJobs func(ctx context.Context, masters []string, token string) error
	// RunMesos runs a gateway for frameworks of Mesos that join with the first operator's token, until the context ends;
	// nil: there is none.
	RunMesos func(ctx context.Context, masters []string, token string) error
	// Binary with MasterArgs or AgentArgs is the command line of a child. The child must end with its standard input.
	Binary     string
	MasterArgs func(Master) []string
	AgentArgs  func(Agent) []string
	// Restart is the first pause after which a child that ended is started again. 0: it is not.
	Restart time.Duration
	// Chaos breaks the cluster by the plan of this seed once it runs, until ctx ends; nil: nothing is broken. It needs
	// Processes and AgentProcesses.
	Chaos *uint64
	// FreePorts takes any free ports and never the default ones, so that only those who were told can find the cluster.
	FreePorts bool
	// Insecure: the cluster has no certificates. A folder of such a cluster stays without them in any case.
	Insecure bool
	// Announce lets programs on this machine find the token with which people and frameworks join, until withdraw is
	// called.
	Announce func(masters []string, token string) (withdraw func() error, err error)
	// Operator connects to the named masters with the identity of the token. It tries until one leads.
	Operator func(ctx context.Context, masters []string, token string, failed func(error)) (apiv1.OperatorServiceClient, io.Closer, error)
	// Say tells people what happens; Ready is called once when everything is running.
	Say   func(format string, args ...any)
	Ready func(Cluster)
}

// Cluster describes the running cluster, as dev.json shows it to programs.
type Cluster struct {
	Dir       string   `json:"-"` // a reader of the file knows where it is
	Temporary bool     `json:"-"`
	PID       int      `json:"pid"`
	Masters   []Master `json:"masters"`
	Agents    []Agent  `json:"agents"`
	// Took is the time from the start until everything was running.
	Took time.Duration `json:"-"`
}

// Master is one master. PID is that of dev itself unless the master is a process.
type Master struct {
	ID   string `json:"id"`
	PID  int    `json:"pid"`
	GRPC string `json:"grpc"`
	HTTP string `json:"http"`
	Raft string `json:"raft"`
	Dir  string `json:"dir"`
	// Insecure: neither this master nor anybody else in the cluster has a certificate.
	Insecure bool `json:"-"`
	// Peers are all masters, including this one; only at a cluster's first start.
	Peers []Peer `json:"-"`
}

// Peer is a member of the quorum.
type Peer struct{ ID, Raft string }

// Agent is one agent. The cluster chooses its ID.
type Agent struct {
	ID   string `json:"id"`
	PID  int    `json:"pid"`
	HTTP string `json:"http"`
	Dir  string `json:"dir"`
	// Ports are those that it offers, in addition to other resources, unless these name some.
	Ports TaskPorts `json:"ports"`
	// Number counts the agents from 0.
	Number int `json:"-"`
	// Masters are the gRPC addresses of all masters.
	Masters []string `json:"-"`
	// Token lets it join, and TokenFile contains the token; "": the cluster has no certificates.
	Token     string `json:"-"`
	TokenFile string `json:"-"`
}

// JSONFile is the name of the file in the folder that describes the cluster once it is ready.
const JSONFile = "dev.json"

// Run starts the cluster and stops it when ctx ends. It returns when all of it has ended.
func Run(ctx context.Context, config Config) (err error) {
	start := time.Now()
	dir, temporary, err := folder(config.Dir)
	if err != nil {
		return err
	}
	if temporary {
		defer func() { err = errors.Join(err, removeAll(dir)) }()
	}
	cluster, claimed, err := plan(dir, config.Masters, config.Agents, !config.FreePorts, config.RunMesos != nil)
	defer claimed.release()
	if err != nil {
		return err
	}
	cluster.Temporary = temporary
	defer func() { err = errors.Join(err, ignoreMissing(os.Remove(filepath.Join(dir, JSONFile)))) }()
	h := &house{config: config, cluster: cluster, start: start, children: map[*int]*process{}, failed: make(chan error, config.Masters+config.Agents+1)}
	if err := h.foundCluster(); err != nil {
		return err
	}
	return h.runAll(ctx)
}

// passage is the mode of the cluster's folder: tasks of other users can pass through it to what is theirs, but not list
// it.
const passage = 0o711

// folder returns the folder for the data, as an absolute path without links, so that processes can be recognized by it.
func folder(named string) (dir string, temporary bool, err error) {
	if named == "" {
		if dir, err = os.MkdirTemp("", "tender-dev-"); err != nil {
			return "", false, err
		}
		if err = os.Chmod(dir, passage); err != nil {
			return "", false, err
		}
	} else if err = os.MkdirAll(named, passage); err != nil {
		return "", false, err
	} else {
		dir = named
	}
	if dir, err = filepath.Abs(dir); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return dir, named == "", err
}

// house is the running cluster.
type house struct {
	config Config
	start  time.Time

	mu        sync.Mutex
	cluster   Cluster           // its process IDs are guarded by mu, the rest is set before anything runs
	described bool              // dev.json is there; guarded by mu
	children  map[*int]*process // by where their process ID is; set before anything else looks at it

	token   string     // the first operator's token; "": the cluster has no certificates
	failed  chan error // errors of masters and agents in this process; room for one of each part
	masters sync.WaitGroup
	agents  sync.WaitGroup
	jobs    sync.WaitGroup
}

func (h *house) runAll(ctx context.Context) (err error) {
	// The parts end in this order: first the agents with what they started, then the masters.
	base := context.WithoutCancel(ctx)
	withdraw := h.announceToken()
	defer func() { err = errors.Join(err, withdraw()) }()
	mastersCtx, stopMasters := context.WithCancel(base)
	defer h.masters.Wait()
	defer stopMasters()
	if err := h.startMasters(mastersCtx); err != nil {
		return err
	}
	var operator apiv1.OperatorServiceClient
	var closer io.Closer
	if err := h.runStep(ctx, func(ctx context.Context) (err error) {
		operator, closer, err = h.connectFirst(ctx)
		return err
	}); err != nil || ctx.Err() != nil {
		return errors.Join(err, closeAll(closer))
	}
	defer closer.Close()
	var jobsToken string
	if err := h.runStep(ctx, func(ctx context.Context) (err error) {
		jobsToken, err = h.makeTokens(ctx, operator)
		return err
	}); err != nil || ctx.Err() != nil {
		return err
	}
	agentsCtx, stopAgents := context.WithCancel(base)
	defer func() {
		stopAgents()
		h.agents.Wait()
		h.awaitTasks(base)
	}()
	if err := h.startAgents(agentsCtx); err != nil {
		return err
	}
	jobsCtx, stopJobs := context.WithCancel(base)
	defer h.jobs.Wait()
	defer stopJobs()
	if h.config.RunJobs != nil {
		h.jobs.Go(func() {
			h.runPart(jobsCtx, "the job manager", func() error { return h.config.RunJobs(jobsCtx, h.cluster.masterAddresses(), jobsToken) })
		})
	}
	if h.config.RunMesos != nil {
		h.jobs.Go(func() {
			h.runPart(jobsCtx, "the gateway for Mesos", func() error { return h.config.RunMesos(jobsCtx, h.cluster.masterAddresses(), h.token) })
		})
	}
	if err := h.runStep(ctx, func(ctx context.Context) error { return h.awaitReady(ctx, operator) }); err != nil || ctx.Err() != nil {
		return err
	}
	if err := h.tellReady(); err != nil {
		return err
	}
	if h.config.Chaos != nil {
		if err := h.runStep(ctx, func(ctx context.Context) error { return h.breakAll(ctx, operator, *h.config.Chaos) }); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-h.failed:
		return err
	}
}

// runStep runs a step, and ends it early if the whole is to end or a part of it has failed.
func (h *house) runStep(ctx context.Context, step func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- step(ctx) }()
	defer stop()
	select {
	case err := <-done:
		if ctx.Err() != nil {
			return nil
		}
		return err
	case err := <-h.failed:
		stop()
		<-done //nolint:errcheck // the failure of a part is why the step ends
		return err
	}
}

func (h *house) startMasters(ctx context.Context) error {
	for i := range h.cluster.Masters {
		master := &h.cluster.Masters[i]
		if h.config.Processes {
			if err := h.startProcess(ctx, &h.masters, &process{name: "master " + master.ID, args: h.config.MasterArgs(*master), pid: &master.PID}); err != nil {
				return err
			}
			continue
		}
		master.PID = os.Getpid()
		h.masters.Go(func() { h.runPart(ctx, "master "+master.ID, func() error { return h.config.RunMaster(ctx, *master) }) })
	}
	return nil
}

func (h *house) startAgents(ctx context.Context) error {
	for i := range h.cluster.Agents {
		agent := &h.cluster.Agents[i]
		name := fmt.Sprintf("agent %d", agent.Number+1)
		if h.config.AgentProcesses {
			if err := h.startProcess(ctx, &h.agents, &process{name: name, args: h.config.AgentArgs(*agent), pid: &agent.PID}); err != nil {
				return err
			}
			continue
		}
		agent.PID = os.Getpid()
		started := *agent
		h.agents.Go(func() {
			h.runPart(ctx, name, func() error { return h.config.RunAgent(ctx, started) })
		})
	}
	return nil
}

// runPart runs a master or an agent. If it ends before it was told to, the whole has failed.
func (h *house) runPart(ctx context.Context, name string, run func() error) {
	err := run()
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
	case ctx.Err() != nil:
		h.config.Say("%s ended badly: %v", name, err)
	case err == nil:
		h.failed <- fmt.Errorf("%s ended by itself", name)
	default:
		h.failed <- fmt.Errorf("%s: %w", name, err)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
