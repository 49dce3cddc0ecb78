package client

import (
	"cmp"
	"context"
	"os"

	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// tokenVariable is the environment variable that holds the token of a program whose Config has none.
const tokenVariable = "TENDER_TOKEN"

// Dial makes a client with the identity that the token gives, see [Config.Token]; without one it is [New]. It waits
// until a master has given a certificate, or until ctx ends. The functions Dial, DialAgent, Tickets and Keep of the
// config must not be set.
func Dial(ctx context.Context, config Config) (*Client, error) {
	near := nearby.UsersOf(os.LookupEnv)
	config.Masters = nearby.Masters(near, config.Masters, DefaultMaster)
	told, _ := os.LookupEnv(tokenVariable)
	text := cmp.Or(config.Token, told, nearby.Token(near, config.Masters))
	if text == "" {
		return New(config)
	}
	how := joining.Config{Masters: config.Masters, Dial: transport.DialTCP, Failed: func(_ string, err error) {
		if config.Waiting != nil {
			config.Waiting(err)
		}
	}}
	holder, token, err := joining.Member(ctx, how, text, trust.Person, trust.Framework)
	if err != nil {
		return nil, err
	}
	how.Token = token
	config.Dial = near.Dialer(holder.Dialer(transport.DialTCP, trust.Master), "make a new client")
	config.DialAgent, config.Tickets = holder.Dialer(transport.DialTCP, trust.Agent), true
	config.Keep = func(ctx context.Context) {
		joining.Keep(ctx, holder, func() joining.Config { return how }, func(*trust.Pass) error { return nil })
	}
	return New(config)
}
