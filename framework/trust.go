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
	"github.com/tenderhq/tender/internal/joining"
	"github.com/tenderhq/tender/internal/nearby"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust"
)

// tokenVariable is where the environment has the token of a framework whose Config has none.
const tokenVariable = "TENDER_TOKEN"

// NoToken in [Config.Token] says that the framework joins by no token, also where the environment has one: its Dialer knows
// how masters are reached.
const NoToken = "none"

// identity is who the framework is to masters and agents. It lives as long as Run.
type identity struct {
	config  Config
	near    nearby.Users // whose clusters of `tender dev` it may have joined; none where its masters are reached otherwise
	token   trust.Token
	looking bool          // it has no token: before each connection it looks for that of this user's `tender dev`
	proved  chan struct{} // closed when there is a holder

	mu     sync.Mutex // held while it joins
	holder atomic.Pointer[trust.Holder]
}

// identify finds out by what the framework is known: its own token, else that of the environment. One that has neither, and
// reaches its masters over this machine's network, looks for a cluster of this user's `tender dev` there.
func identify(config Config) (*identity, error) {
	told, _ := os.LookupEnv(tokenVariable)
	config.Token = cmp.Or(config.Token, told)
	i := &identity{proved: make(chan struct{})}
	if config.Dialer == nil {
		i.near, i.looking = nearby.UsersOf(os.LookupEnv), config.Token == ""
	}
	var err error
	i.config, err = config.complete()
	return i, err
}

// prove joins the cluster by the token, if there is one.
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
	holder, token, err := joining.Member(ctx, i.joining(), text, "a framework", trust.Framework, trust.Person)
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

// look joins the cluster of `tender dev`, as soon as there is one.
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

// renew keeps the certificate from ending, until the context does.
func (i *identity) renew(ctx context.Context) {
	select {
	case <-i.proved:
		joining.Keep(ctx, i.holder.Load(), i.joining, func(*trust.Pass) error { return nil })
	case <-ctx.Done():
	}
}

// startAgain is what to do when another cluster has taken the place of the framework's own.
const startAgain = "its tasks have ended with it; start the framework again, and it joins the new one (one that has a token needs a new token)"

// toMaster reaches masters, and nobody else.
func (i *identity) toMaster(ctx context.Context, address string) (net.Conn, error) {
	if err := i.look(ctx); err != nil {
		return nil, err
	}
	return i.near.Dialer(i.holder.Load().Dialer(i.config.Dialer, trust.Master), startAgain)(ctx, address)
}

// toAgent reaches agents, and nobody else.
func (i *identity) toAgent(ctx context.Context, address string) (net.Conn, error) {
	return i.holder.Load().Dialer(i.config.Dialer, trust.Agent)(ctx, address)
}

// ticket asks the leader for what opens files of a task at its agent; "" in a cluster without certificates.
func (i *identity) ticket(ctx context.Context, operator apiv1.OperatorServiceClient, task api.TaskRef, agent string) (string, error) {
	if i.holder.Load() == nil {
		return "", nil
	}
	answer, err := operator.GetReadTicket(ctx, &apiv1.TicketRequest{FrameworkId: string(task.Framework), TaskId: string(task.Task), AgentId: agent})
	return answer.GetTicket(), err
}
