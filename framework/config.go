package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/transport"
)

// Defaults of [Config].
const (
	DefaultMaster            = "127.0.0.1:5060"
	DefaultFailoverTimeout   = 10 * time.Minute
	DefaultReconcileInterval = 15 * time.Minute
	DefaultShipAddress       = "127.0.0.1:0"
)

// Config says who the framework is. The zero value is complete but for Name.
type Config struct {
	// Masters are gRPC addresses, host:port, of some or all masters. Default 127.0.0.1:5060.
	Masters []string
	// Token lets the framework join a cluster with certificates: it gets one for as long as Run goes on, which renews it.
	// Default: the environment's TENDER_TOKEN; else that of the `tender dev` which has one of the Masters, if the same user
	// runs it on this machine, also later than the framework; without any of them nothing is encrypted.
	Token string
	// Name is for people; with Standby it is the identity.
	Name string
	// ID continues a framework that subscribed before. Default: a new one.
	ID api.FrameworkID
	// Roles to be offered resources in. Default [api.DefaultRole].
	Roles []api.Role
	// FailoverTimeout is how long tasks live on without a scheduler; then the framework is
	// removed with them. Default 10 min; as short as one likes, but 0 is the default.
	FailoverTimeout time.Duration
	// Standby: any number of instances run with the same Name; one is active (R6).
	Standby bool
	// Constraint, MinOffer, MaxOffer, Revocable: see [api.Framework].
	Constraint string
	MinOffer   api.Resources
	MaxOffer   api.Resources
	Revocable  bool
	// Suppressed starts without offers until [Client.Revive] or [Client.Demand]. Who states a
	// demand in Subscribed, or did in an earlier session, needs it not: nothing is offered
	// before that is told.
	Suppressed bool
	// SuppressedRoles are those of Roles that start without offers, where others do not.
	SuppressedRoles []api.Role
	// Labels are for people and their tools.
	Labels map[string]string
	// Endpoints say under which names and addresses the framework itself can be reached. The
	// masters keep them with it, so that others find it.
	Endpoints map[string]string
	// TeardownAtEnd removes the framework with its tasks when Run's context ends.
	TeardownAtEnd bool
	// ConnectTimeout ends Run when the first session has not begun by then, with what
	// stood in the way. Default: none; later sessions are awaited for ever in any case.
	ConnectTimeout time.Duration
	// ReconcileInterval is about how often the masters are asked for the state of all
	// tasks whose end is not known: each time between half and one and a half of it, so
	// that frameworks do not ask at once. It mends what should not happen; each session
	// begins with it in any case. Default 15 min; negative: never.
	ReconcileInterval time.Duration
	// Metrics are functions that count what happens. Default: none.
	Metrics Metrics
	// Logger takes what the SDK has to say. Default: discarded.
	Logger *slog.Logger
	// ShipAddress is the host:port at which [Client.Self] serves this program to agents,
	// for whoever asks. Agents connect to it, so its host is the name or address by which
	// they reach this machine; port 0 is any. Nothing listens before the first call.
	// Default 127.0.0.1:0, which only agents on this machine reach.
	ShipAddress string
	// Listen opens ShipAddress. Default: TCP.
	Listen func(ctx context.Context, address string) (net.Listener, error)
	// Dialer opens connections to masters, and for [Client.ReadFile] to agents. Default: TCP.
	Dialer func(ctx context.Context, address string) (net.Conn, error)
}

// complete fills in the defaults and reports all that is wrong together.
func (c Config) complete() (Config, error) {
	if len(c.Masters) == 0 {
		c.Masters = []string{DefaultMaster}
	}
	if len(c.Roles) == 0 {
		c.Roles = []api.Role{api.DefaultRole}
	}
	if c.FailoverTimeout == 0 {
		c.FailoverTimeout = DefaultFailoverTimeout
	}
	if c.ReconcileInterval == 0 {
		c.ReconcileInterval = DefaultReconcileInterval
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ShipAddress == "" {
		c.ShipAddress = DefaultShipAddress
	}
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

// faultsOf judges what a framework says of itself, as far as the SDK can.
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

// framework is what the masters are told.
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
