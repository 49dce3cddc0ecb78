package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// certified is what belongs to a cluster with certificates, as seen by the operator who breaks it. It is nil for a
// cluster without certificates.
type certified struct {
	*cluster
	life         time.Duration // the life of all certificates
	holder       *trust.Holder // the operator's certificate; nil until it has joined
	token        trust.Token   // the token with which it has joined
	frame        string        // the ID of the schedulers' token
	renewing     sync.WaitGroup
	stopRenewing context.CancelFunc
}

// Names of files that hold tokens, in the folder of the cluster.
const (
	agentToken     = "agent.token"
	schedulerToken = "scheduler.token"
)

// masterProof returns the flags that tell masters whether there are certificates.
func (c *certified) masterProof() []string {
	if c == nil {
		return []string{"--insecure"}
	}
	life := c.life.String()
	return []string{"--certificate-life", life, "--agent-certificate-life", life}
}

func (c *certified) agentProof() []string {
	if c == nil {
		return []string{"--insecure"}
	}
	return []string{"--join", filepath.Join(c.dir, agentToken)}
}

// found gives all founding masters the key of a new cluster.
func (c *certified) found(ctx context.Context) error {
	if c == nil {
		return nil
	}
	first := filepath.Join(c.dir, c.masters[0].name)
	if out, err := c.ask(ctx, "init", "--data-dir", first); err != nil {
		return fmt.Errorf("tender init: %w: %s", err, out)
	}
	key, err := trust.ReadKey(first)
	if err != nil {
		return err
	}
	for _, m := range c.masters[1:] {
		folder := filepath.Join(c.dir, m.name)
		if err := errors.Join(os.MkdirAll(folder, 0o700), trust.WriteKey(folder, key)); err != nil {
			return err
		}
	}
	c.token, err = key.FirstToken()
	return err
}

// enrol joins as an operator for as long as the run goes on, and makes the tokens with which the others join.
func (c *certified) enrol(ctx context.Context) error {
	if c == nil {
		return nil
	}
	pass, err := c.join(ctx, c.token)
	if err != nil {
		return err
	}
	c.holder = trust.NewHolder(pass)
	keeping, stop := context.WithCancel(ctx)
	c.stopRenewing = stop
	c.renewing.Go(func() {
		joining.Keep(keeping, c.holder, c.joining, func(*trust.Pass) error { return nil })
	})
	agents, err := c.newToken(ctx, &apiv1.CreateTokenRequest{Kind: "agent", Uses: 1000, Ttl: durationpb.New(24 * time.Hour)})
	if err != nil {
		return err
	}
	if err := trust.WriteSecret(filepath.Join(c.dir, agentToken), []byte(agents.GetToken())); err != nil {
		return err
	}
	return c.renewSchedulerToken(ctx)
}

// renewSchedulerToken makes a new token for schedulers that start from now on.
func (c *certified) renewSchedulerToken(ctx context.Context) error {
	made, err := c.newToken(ctx, &apiv1.CreateTokenRequest{Kind: "framework", Principal: "chaos", Roles: []string{"default"}})
	if err != nil {
		return err
	}
	c.frame = made.GetId()
	return trust.WriteSecret(filepath.Join(c.dir, schedulerToken), []byte(made.GetToken()))
}

// disband stops the renewal of the operator's certificate.
func (c *certified) disband() {
	if c != nil && c.stopRenewing != nil {
		c.stopRenewing()
		c.renewing.Wait()
	}
}

func (c *certified) joining() joining.Config {
	var masters []string
	for _, m := range c.masters {
		masters = append(masters, m.proxies[0].front)
	}
	return joining.Config{Masters: masters, Dial: transport.DialTCP}
}

func (c *certified) join(ctx context.Context, token trust.Token) (*trust.Pass, error) {
	ctx, cancel := context.WithTimeout(ctx, hangAfter)
	defer cancel()
	answer, err := joining.Join(ctx, c.joining(), token, trust.NewPass())
	return answer.Pass, err
}

// newToken asks the leader for a token.
func (c *certified) newToken(ctx context.Context, request *apiv1.CreateTokenRequest) (made *apiv1.CreateTokenResponse, err error) {
	return made, c.await(ctx, "a token", c.options.heal, func(ctx context.Context) string {
		return c.atLeader(ctx, func(ctx context.Context, m *node) error {
			var err error
			made, err = c.operator(m).CreateToken(ctx, request)
			return err
		})
	})
}

// atLeader calls the leader, and returns what has failed.
func (c *certified) atLeader(ctx context.Context, do func(context.Context, *node) error) string {
	leader := c.leader(ctx)
	if leader == nil {
		return "nobody leads"
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := do(ctx, leader); err != nil {
		return err.Error()
	}
	return ""
}

// dialMaster dials a master as the operator, who may not have joined yet when a connection is made.
func (c *certified) dialMaster(ctx context.Context, address string) (net.Conn, error) {
	if c == nil {
		return transport.DialTCP(ctx, address)
	}
	if c.holder == nil {
		return nil, errors.New("nobody has joined yet")
	}
	return c.holder.Dialer(transport.DialTCP, trust.Master)(ctx, address)
}

// variables returns the environment variables with which a command finds the cluster.
func (c *certified) variables() []string {
	if c == nil || c.holder == nil {
		return nil
	}
	token := c.token
	token.Digest = c.holder.Pass().Authority() // another authority than when it was made may sign by now
	return []string{"XDG_CONFIG_HOME=" + filepath.Join(c.dir, "operator"), "TENDER_TOKEN=" + token.String()}
}
