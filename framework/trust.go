package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/nearby"
)

// tokenVariable is the environment variable that holds the token of a framework whose Config has none.
const tokenVariable = "TENDER_TOKEN"

// NoToken in [Config.Token] says that the framework joins without a token, even if the environment has one, because its
// Dialer knows how to reach the masters.
const NoToken = "none"

// identity is how masters and agents know the framework: by its token and its certificate. It lives as long as Run.
type identity struct {
	config  Config
	near    nearby.Users // users whose `tender dev` is searched for a token; empty if Config has a Dialer
	token   trust.Token
	looking bool          // there is no token: before each connection it looks for the token of this user's `tender dev`
	proved  chan struct{} // closed when holder is set

	mu     sync.Mutex // held while the framework joins
	holder atomic.Pointer[trust.Holder]
}

// identify finds the framework's token: its own, or else the environment's. A framework without a token and without a
// Dialer of its own will look for the token of this user's `tender dev` on this machine.
func identify(config Config) (*identity, error) {
	told, _ := os.LookupEnv(tokenVariable)
	config.Token = cmp.Or(config.Token, told)
	i := &identity{proved: make(chan struct{})}
	if config.Dialer == nil {
		i.near, i.looking = nearby.UsersOf(os.LookupEnv), config.Token == ""
		config.Masters = nearby.Masters(i.near, config.Masters, DefaultMaster)
	}
	var err error
	i.config, err = config.complete()
	return i, err
}

// prove joins the cluster with the token, if there is one.
func (i *identity) prove(ctx context.Context) error {
	text := i.config.Token
	if text == "" || text == NoToken {
		return nil
	}
	if i.config.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, i.config.ConnectTimeout)
		defer cancel()
	}
	return i.join(ctx, text)
}

func (i *identity) join(ctx context.Context, text string) error {
	holder, token, err := joining.Member(ctx, i.joining(), text, trust.Framework, trust.Person)
	i.token = token
	if revoked := protocol.Revoked(""); errors.As(err, &revoked) {
		err = api.E("framework.join", api.Denied, token.ID, fmt.Errorf("%w: %w", ErrRevoked, err))
	}
	if err != nil {
		return err
	}
	i.holder.Store(holder)
	close(i.proved)
	return nil
}

// look joins the cluster of this user's `tender dev`, as soon as there is one.
func (i *identity) look(ctx context.Context) error {
	if !i.looking {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holder.Load() != nil {
		return nil
	}
	text := nearby.Token(i.near, i.config.Masters)
	if text == "" {
		return nil
	}
	return i.join(ctx, text)
}

func (i *identity) joining() joining.Config {
	return joining.Config{
		Masters: i.config.Masters, Dial: i.config.Dialer, Token: i.token,
		Failed: func(address string, err error) {
			i.config.Logger.Warn("no certificate yet", "master", address, "why", err)
		},
	}
}

// renew renews the certificate before it ends, until the context ends.
func (i *identity) renew(ctx context.Context) {
	select {
	case <-i.proved:
		joining.Keep(ctx, i.holder.Load(), i.joining, func(*trust.Pass) error { return nil })
	case <-ctx.Done():
	}
}

// startAgain says what to do when another cluster has taken the place of the framework's own.
const startAgain = "its tasks have ended with it; start the framework again, and it joins the new one (one that has a token needs a new token)"

// toMaster connects to a master; it refuses any other peer.
func (i *identity) toMaster(ctx context.Context, address string) (net.Conn, error) {
	if err := i.look(ctx); err != nil {
		return nil, err
	}
	return i.near.Dialer(i.holder.Load().Dialer(i.config.Dialer, trust.Master), startAgain)(ctx, address)
}

// toAgent connects to an agent; it refuses any other peer.
func (i *identity) toAgent(ctx context.Context, address string) (net.Conn, error) {
	return i.holder.Load().Dialer(i.config.Dialer, trust.Agent)(ctx, address)
}

// ticket asks the leader for a ticket that opens the files of a task at its agent; "" in a cluster without
// certificates.
func (i *identity) ticket(ctx context.Context, operator apiv1.OperatorServiceClient, task api.TaskRef, agent string) (string, error) {
	if i.holder.Load() == nil {
		return "", nil
	}
	answer, err := operator.GetReadTicket(ctx, &apiv1.TicketRequest{FrameworkId: string(task.Framework), TaskId: string(task.Task), AgentId: agent})
	return answer.GetTicket(), err
}
