package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// Defaults of [Config].
const (
	DefaultMaster            = "127.0.0.1:5060"
	DefaultFailoverTimeout   = 10 * time.Minute
	DefaultReconcileInterval = 15 * time.Minute
	DefaultShipAddress       = "127.0.0.1:0"
)

// Config says who the framework is and how it works. All fields but Name have a default.
type Config struct {
	// Masters are gRPC addresses, host:port, of some or all masters. Default 127.0.0.1:5060. If the same user runs a
	// `tender dev` on this machine that has one of them, the others of that cluster are known too.
	Masters []string
	// Token lets the framework join a cluster with certificates. It gets a certificate, which Run renews for as long as
	// it goes on. Default: the environment variable TENDER_TOKEN; if that is not set, the token of the `tender dev`
	// that has one of the Masters, if the same user runs it on this machine (it may start later than the framework).
	// Without any token nothing is encrypted.
	Token string
	// Name is for people; with Standby it is the identity.
	Name string
	// ID continues the framework that has this ID. Default: a new framework.
	ID api.FrameworkID
	// Roles are the roles in which the framework is offered resources. Default [api.DefaultRole].
	Roles []api.Role
	// FailoverTimeout is how long tasks live on without a scheduler; after that the framework and its tasks are
	// removed. Default 10 min. It may be as short as you like, but 0 means the default.
	FailoverTimeout time.Duration
	// Standby lets any number of instances run with the same Name, of which one is active (R6).
	Standby bool
	// Constraint, MinOffer, MaxOffer, Revocable: see [api.Framework].
	Constraint string
	MinOffer   api.Resources
	MaxOffer   api.Resources
	Revocable  bool
	// Suppressed starts the framework without offers, until [Client.Revive] or [Client.Demand] is called. A scheduler
	// that states its demand in Subscribed, or did so in an earlier session, does not need it: nothing is offered
	// before the demand is told.
	Suppressed bool
	// SuppressedRoles are those of Roles that start without offers, if not all do.
	SuppressedRoles []api.Role
	// Labels describe the framework for people and their tools.
	Labels map[string]string
	// Endpoints are names and addresses under which the framework itself can be reached. The masters keep them with the
	// framework, so that others can find it.
	Endpoints map[string]string
	// TeardownAtEnd removes the framework with its tasks when Run's context ends.
	TeardownAtEnd bool
	// ConnectTimeout ends Run with an error that says what was in the way, if the first session has not begun by then.
	// Default: no limit. Later sessions are always awaited without limit.
	ConnectTimeout time.Duration
	// ReconcileInterval is about how often the SDK asks the masters for the state of all tasks whose end it does not
	// know. Each pause is between half and one and a half of it, so that frameworks do not ask at the same time. This
	// corrects differences that should not arise; each session begins with it in any case. Default 15 min; negative:
	// never.
	ReconcileInterval time.Duration
	// Metrics are functions that count what happens. Default: none.
	Metrics Metrics
	// Logger takes the SDK's log. Default: discarded.
	Logger *slog.Logger
	// ShipAddress is the host:port at which [Client.Self] serves this program to agents and to anybody else who asks.
	// Agents connect to it, so the host must be the name or address by which they reach this machine. Port 0 means any
	// free port. Nothing listens before the first call. Default 127.0.0.1:0, which only agents on this machine reach.
	ShipAddress string
	// Listen opens ShipAddress. Default: TCP.
	Listen func(ctx context.Context, address string) (net.Listener, error)
	// Dialer opens connections to masters, and for [Client.ReadFile] to agents. Default: TCP.
	Dialer func(ctx context.Context, address string) (net.Conn, error)
}

// complete fills in the defaults and reports everything that is wrong together.
func (c Config) complete() (Config, error) {
	if len(c.Masters) == 0 {
		c.Masters = []string{DefaultMaster}
	}
	if len(c.Roles) == 0 {
		c.Roles = []api.Role{api.DefaultRole}
	}
	c.FailoverTimeout = cmp.Or(c.FailoverTimeout, DefaultFailoverTimeout)
	c.ReconcileInterval = cmp.Or(c.ReconcileInterval, DefaultReconcileInterval)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.ShipAddress = cmp.Or(c.ShipAddress, DefaultShipAddress)
	if c.Listen == nil {
		c.Listen = func(ctx context.Context, address string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(ctx, "tcp", address)
		}
	}
	if c.Dialer == nil {
		c.Dialer = transport.DialTCP
	}
	if err := errors.Join(c.faults()...); err != nil {
		return c, api.E("framework.config", api.Invalid, c.Name, err)
	}
	return c, nil
}

func (c Config) faults() []error {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		refuse("Name is empty; people find the framework by it")
	}
	if c.ID != "" {
		if err := api.CheckID("ID", string(c.ID)); err != nil {
			faults = append(faults, err)
		}
	}
	for _, address := range c.Masters {
		if _, _, err := net.SplitHostPort(address); err != nil {
			refuse("master %q is no host:port: %w", address, err)
		}
	}
	if host, _, err := net.SplitHostPort(c.ShipAddress); err != nil {
		refuse("ShipAddress %q is no host:port: %w", c.ShipAddress, err)
	} else if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		refuse("ShipAddress %q: %w", c.ShipAddress, errNoHost)
	}
	for _, role := range c.SuppressedRoles {
		if !slices.Contains(c.Roles, role) {
			refuse("SuppressedRoles: %q is not among the Roles %v", role, c.Roles)
		}
	}
	return append(faults, faultsOf(c.framework())...)
}

// faultsOf lists what is wrong with a framework, as far as the SDK can judge it.
func faultsOf(f api.Framework) []error {
	var faults []error
	refuse := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.FailoverTimeout < 0 {
		refuse("FailoverTimeout is %v; it must not be negative", f.FailoverTimeout)
	}
	for i, role := range f.Roles {
		if err := role.Check(); err != nil {
			faults = append(faults, err)
		}
		if slices.Contains(f.Roles[:i], role) {
			refuse("role %q is named twice", role)
		}
	}
	if err := f.MinOffer.Check(); err != nil {
		refuse("MinOffer: %w", err)
	}
	if err := f.MaxOffer.Check(); err != nil {
		refuse("MaxOffer: %w", err)
	}
	return faults
}

// framework returns what the masters are told of the framework.
func (c Config) framework() api.Framework {
	return api.Framework{
		ID:              c.ID,
		Name:            c.Name,
		Roles:           c.Roles,
		FailoverTimeout: c.FailoverTimeout,
		Standby:         c.Standby,
		Constraint:      c.Constraint,
		MinOffer:        c.MinOffer,
		MaxOffer:        c.MaxOffer,
		Revocable:       c.Revocable,
		Labels:          c.Labels,
		Endpoints:       c.Endpoints,
	}
}
