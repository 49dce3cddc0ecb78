package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"

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
	config Config
	token  trust.Token
	holder *trust.Holder // nil: it has no certificate
}

// withToken fills in the token of the environment, else that of this user's `tender dev`, where the masters are reached over
// this machine's network.
func (c Config) withToken() Config {
	c.Token = cmp.Or(c.Token, os.Getenv(tokenVariable))
	if c.Token == "" && c.Dialer == nil {
		masters := c.Masters
		if len(masters) == 0 {
			masters = []string{DefaultMaster}
		}
		c.Token = nearby.Token(nearby.UsersOf(os.LookupEnv), masters)
	}
	return c
}

// prove joins the cluster by the token, if there is one.
func prove(ctx context.Context, config Config) (identity, error) {
	who := identity{config: config}
	text := config.Token
	if text == "" || text == NoToken {
		return who, nil
	}
	if config.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, config.ConnectTimeout)
		defer cancel()
	}
	var err error
	who.holder, who.token, err = joining.Member(ctx, who.joining(), text, "a framework", trust.Framework, trust.Person)
	if revoked := protocol.Revoked(""); errors.As(err, &revoked) {
		err = api.E("framework.join", api.Denied, who.token.ID, fmt.Errorf("%w: %w", ErrRevoked, err))
	}
	if err != nil {
		return who, err
	}
	return who, nil
}

func (i identity) joining() joining.Config {
	return joining.Config{
		Masters: i.config.Masters, Dial: i.config.Dialer, Token: i.token,
		Failed: func(address string, err error) {
			i.config.Logger.Warn("no certificate yet", "master", address, "why", err)
		},
	}
}

// renew keeps the certificate from ending, until the context does.
func (i identity) renew(ctx context.Context) {
	if i.holder != nil {
		joining.Keep(ctx, i.holder, i.joining, func(*trust.Pass) error { return nil })
	}
}

// masters reaches masters, and nobody else.
func (i identity) masters() func(context.Context, string) (net.Conn, error) {
	return i.holder.Dialer(i.config.Dialer, trust.Master)
}

// agents reaches agents, and nobody else.
func (i identity) agents() func(context.Context, string) (net.Conn, error) {
	return i.holder.Dialer(i.config.Dialer, trust.Agent)
}

// ticket asks the leader for what opens files of a task at its agent; "" in a cluster without certificates.
func (i identity) ticket(ctx context.Context, operator apiv1.OperatorServiceClient, task api.TaskRef, agent string) (string, error) {
	if i.holder == nil {
		return "", nil
	}
	answer, err := operator.GetReadTicket(ctx, &apiv1.TicketRequest{FrameworkId: string(task.Framework), TaskId: string(task.Task), AgentId: agent})
	return answer.GetTicket(), err
}
