package manager

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/jobs"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
	"github.com/tenderhq/tender/internal/trust/nearby"
	"github.com/tenderhq/tender/internal/trust/transport"
)

// FailoverTimeout is how long jobs live on without any manager, for managers that [Run] runs.
const FailoverTimeout = 30 * 24 * time.Hour

// RunConfig says where a manager listens, and which cluster it serves.
type RunConfig struct {
	// Name is the name of its framework, by which callers may choose it. Managers of one name stand by for each other.
	// Default "jobs".
	Name string
	// Role is the role of jobs that name none. Jobs that name this role, or one below it, are forwarded to this manager
	// unless another one has a nearer role. It takes jobs of every role in which its principal may run. Default
	// [api.DefaultRole].
	Role    api.Role
	Masters []string // default 127.0.0.1:5060
	// Token lets the manager join a cluster with certificates; then only masters can reach its service. "": the cluster
	// has no certificates.
	Token     string
	Bind      string // default 127.0.0.1
	Port      int
	Advertise string
	Log       io.Writer     // nil: no log
	Calendar  jobs.Calendar // reads the schedules of cron jobs; nil: cron jobs are refused
	Judge     jobs.Judge    // reads constraints of tasks; nil: jobs that have some are refused
	// Lookup reads the environment. It tells whose `tender dev` clusters the manager may have joined: the manager ends
	// when another cluster has taken the place of its own. nil: none.
	Lookup func(string) (string, bool)
}

// Run runs a job manager and its service until the context ends.
func Run(ctx context.Context, config RunConfig) (err error) {
	config.Bind = cmp.Or(config.Bind, "127.0.0.1")
	config.Name = cmp.Or(config.Name, Endpoint)
	config.Role = cmp.Or(config.Role, api.DefaultRole)
	if len(config.Masters) == 0 {
		config.Masters = []string{framework.DefaultMaster}
	}
	log := slog.New(slog.DiscardHandler)
	if config.Log != nil {
		log = slog.New(slog.NewTextHandler(config.Log, nil))
	}
	listener, err := config.listen(ctx)
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if config.Advertise != "" {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		address = net.JoinHostPort(config.Advertise, port)
	}
	holder, err := config.join(ctx, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var options []grpc.ServerOption
	if holder != nil {
		options = append(options, grpc.Creds(transport.ServerCredentials(holder, trust.Door{Kinds: []trust.Kind{trust.Master}})))
	}
	m := New(Config{Name: config.Name, Logger: log, Calendar: config.Calendar, Judge: config.Judge})
	server := NewServer(m, options...)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		err = errors.Join(err, <-served)
	}()
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if holder != nil {
			joining.Keep(keeping, holder, func() joining.Config { return config.joining(log) }, func(*trust.Pass) error { return nil })
		}
	}()
	defer func() { stop(); <-kept }()
	err = framework.Run(ctx, framework.Config{
		Token: framework.NoToken, Dialer: config.toMasters(holder), // the dialer and the service use one certificate
		Name: config.Name, Roles: []api.Role{config.Role}, Standby: true, Masters: config.Masters, FailoverTimeout: FailoverTimeout,
		Revocable: true, // for the jobs that ask for what others do not use
		Endpoints: map[string]string{Endpoint: address}, Logger: log,
	}, m)
	if err == nil && ctx.Err() != nil {
		log.Info("job manager has ended; jobs and their tasks go on, and another manager takes them over", "why", context.Cause(ctx))
	}
	return err
}

// startAgain says what to do when another cluster has taken the place of the manager's own.
const startAgain = "its jobs have ended with it; start the job manager again, and it joins the new one (with TENDER_TOKEN it needs a new token)"

// toMasters connects to masters; it refuses any other peer.
func (c RunConfig) toMasters(holder *trust.Holder) trust.Dial {
	var near nearby.Users
	if c.Lookup != nil {
		near = nearby.UsersOf(c.Lookup)
	}
	return near.Dialer(holder.Dialer(transport.DialTCP, trust.Master), startAgain)
}

// listen opens the port of the service.
func (c RunConfig) listen(ctx context.Context) (net.Listener, error) {
	address := net.JoinHostPort(c.Bind, strconv.Itoa(c.Port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, api.E("jobs.listen", api.Exists, address,
			errors.New("the port is in use, perhaps by another manager on this machine; choose another one, or 0 for any"))
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil, api.E("jobs.listen", api.Invalid, address,
			errors.New("this is no address of this machine; name one of its own, or 0.0.0.0 for all"))
	}
	return listener, err
}

// join gets the manager's certificate; it returns nil without a token.
func (c RunConfig) join(ctx context.Context, log *slog.Logger) (*trust.Holder, error) {
	if c.Token == "" {
		return nil, nil
	}
	holder, _, err := joining.Member(ctx, c.joining(log), c.Token, trust.Framework)
	return holder, err
}

func (c RunConfig) joining(log *slog.Logger) joining.Config {
	token, _ := trust.ParseToken(c.Token) // a token that can't be read is refused by the join
	return joining.Config{Masters: c.Masters, Dial: transport.DialTCP, Token: token, Failed: func(address string, err error) {
		log.Warn("no certificate yet", "master", address, "why", err)
	}}
}
