package manager

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/tenderhq/tender/framework"
	"github.com/tenderhq/tender/framework/jobs"
)

// FailoverTimeout is how long jobs outlive the last manager that [Run] runs.
const FailoverTimeout = 30 * 24 * time.Hour

// RunConfig says where a manager listens and whom it serves.
type RunConfig struct {
	Masters   []string
	Bind      string // default 127.0.0.1
	Port      int
	Advertise string
	Log       io.Writer     // nil: nowhere
	Calendar  jobs.Calendar // reads the schedules of cron jobs; nil: there are none
}

// Run runs a job manager with its service until the context ends.
func Run(ctx context.Context, config RunConfig) (err error) {
	if config.Bind == "" {
		config.Bind = "127.0.0.1"
	}
	log := slog.New(slog.DiscardHandler)
	if config.Log != nil {
		log = slog.New(slog.NewTextHandler(config.Log, nil))
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(config.Bind, strconv.Itoa(config.Port)))
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
	m := New(Config{Logger: log, Calendar: config.Calendar})
	server := NewServer(m)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		err = errors.Join(err, <-served)
	}()
	return framework.Run(ctx, framework.Config{
		Name: Endpoint, Standby: true, Masters: config.Masters, FailoverTimeout: FailoverTimeout,
		Endpoints: map[string]string{Endpoint: address}, Logger: log,
	}, m)
}
