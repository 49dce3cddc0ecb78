package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/testing/freeports"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// quorum is three `tender master` processes with their folders, and nothing else.
type quorum struct {
	binary string
	dir    string
	flags  []string // more flags, for each start
	nodes  []*node
	proof  *proof // nil: there are no certificates
}

// proof holds what identifies the masters of a quorum, and those who connect to them.
type proof struct {
	key      trust.Key
	operator *trust.Holder
}

func newProof() (*proof, error) {
	key := trust.NewKey()
	authority, err := key.Authority()
	if err != nil {
		return nil, err
	}
	pass, err := authority.Issue(trust.Identity{Kind: trust.Person, Name: "admin"}, time.Now())
	return &proof{key, trust.NewHolder(pass)}, err
}

// dialer reaches masters as the operator, or without an identity if p is nil.
func (p *proof) dialer() trust.Dial {
	if p == nil {
		return transport.DialTCP
	}
	return p.operator.Dialer(transport.DialTCP, trust.Master)
}

// node is one master; process is nil while it does not run.
type node struct {
	id      string
	grpc    string
	http    string
	dir     string
	process *exec.Cmd
	client  *grpc.ClientConn
}

// electionMax is how long a benchmark waits for a leader before it gives up.
const electionMax = 2 * time.Minute

// startQuorum founds a quorum, with certificates unless that is declined, and returns when it has a leader.
func startQuorum(ctx context.Context, o options, flags ...string) (q *quorum, err error) {
	q = &quorum{flags: flags}
	if !o.insecure {
		if q.proof, err = newProof(); err != nil {
			return q, err
		}
	}
	return q, q.found(ctx, o.binary, o.dir)
}

func (q *quorum) found(ctx context.Context, binary, parent string) (err error) {
	q.binary = binary
	if q.dir, err = os.MkdirTemp(parent, "quorum-"); err != nil {
		return err
	}
	ports, err := freeports.Reserve(9)
	if err != nil {
		return err
	}
	var peers []string
	for i := range 3 {
		peers = append(peers, fmt.Sprintf("m%d=127.0.0.1:%d", i+1, ports[3*i+1]))
	}
	for i := range 3 {
		n := &node{id: fmt.Sprint("m", i+1), grpc: fmt.Sprint("127.0.0.1:", ports[3*i]), http: fmt.Sprint("127.0.0.1:", ports[3*i+2]), dir: filepath.Join(q.dir, fmt.Sprint("m", i+1))}
		q.nodes = append(q.nodes, n)
		if n.client, err = transport.Connect(n.grpc, q.proof.dialer()); err != nil {
			return err
		}
		how, err := q.prove(n)
		if err != nil {
			return err
		}
		if err := q.start(n, how, "--id", n.id, "--peers", strings.Join(peers, ","), "--grpc-port", fmt.Sprint(ports[3*i]),
			"--raft-port", fmt.Sprint(ports[3*i+1]), "--http-port", fmt.Sprint(ports[3*i+2])); err != nil {
			return err
		}
	}
	_, err = q.leader(ctx)
	return err
}

// prove writes the cluster's key into a master's folder, if there is one.
func (q *quorum) prove(n *node) (flag string, err error) {
	if q.proof == nil {
		return "--insecure", nil
	}
	return "--insecure=false", errors.Join(os.MkdirAll(n.dir, 0o700), trust.WriteKey(n.dir, q.proof.key))
}

// start starts a master. The folder has everything except what the arguments of a first start say.
func (q *quorum) start(n *node, args ...string) error {
	log, err := os.OpenFile(n.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	n.process = exec.Command(q.binary, slices.Concat([]string{"master", "--data-dir", n.dir}, q.flags, args)...)
	n.process.Env = append(os.Environ(), "GODEBUG=gctrace=1") // a line for each collection: see node.collected
	n.process.Stderr = log
	n.process.SysProcAttr = ofOurs()
	return n.process.Start()
}

// kill ends a master as a crash would.
func (n *node) kill() {
	if n.process != nil {
		_ = n.process.Process.Kill()
		_ = n.process.Wait() // it was killed
		n.process = nil
	}
}

func (q *quorum) stop() error {
	for _, n := range q.nodes {
		n.kill()
		if n.client != nil {
			_ = n.client.Close()
		}
	}
	return os.RemoveAll(q.dir)
}

func (q *quorum) addresses() []string {
	var list []string
	for _, n := range q.nodes {
		list = append(list, n.grpc)
	}
	return list
}

// leader waits for a master that answers a read as the leader.
func (q *quorum) leader(ctx context.Context) (*node, error) {
	ctx, cancel := context.WithTimeout(ctx, electionMax)
	defer cancel()
	var last error
	for {
		for _, n := range q.nodes {
			if n.process == nil {
				continue
			}
			if last = n.answers(ctx); last == nil {
				return n, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("nobody leads"), last)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// answers makes a call that only a leader with the whole registry can answer.
func (n *node) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	n.client.ResetConnectBackoff()
	_, err := apiv1.NewOperatorServiceClient(n.client).ListAgents(ctx, &apiv1.ListRequest{Limit: 1})
	return err
}

// knows waits until a master has caught up so far that it knows who leads.
func (n *node) knows(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, electionMax)
	defer cancel()
	for {
		n.client.ResetConnectBackoff()
		answer, err := apiv1.NewMasterServiceClient(n.client).Leader(ctx, &apiv1.LeaderRequest{})
		if err == nil && answer.GetGrpcAddress() != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not come back", n.id), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
