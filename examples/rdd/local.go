package rdd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tenderhq/tender/examples/rdd/plan"
)

// Local runs a program with executors in this process, without a cluster, to try things out and to test them.
func Local(ctx context.Context, config Config, program func(ctx context.Context, c *Context) error) (err error) {
	if config.Mode == Fine {
		return errors.New("rdd: without a cluster nothing offers cpus; mode fine needs one")
	}
	c, err := New(config)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rdd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, end := context.WithCancel(ctx)
	var executors sync.WaitGroup
	defer func() {
		end()
		c.Close()
		executors.Wait()
	}()
	for i := range c.config.Executors {
		name := plan.Place(fmt.Sprint("executor-", i+1))
		home := filepath.Join(dir, string(name))
		if err := os.Mkdir(home, 0o700); err != nil {
			return err
		}
		executors.Go(func() { _ = c.employ(ctx, name, home) }) // the program's actions return what goes wrong there
	}
	return program(ctx, c)
}

// employ runs an executor of this context in this process.
func (c *Context) employ(ctx context.Context, name plan.Place, dir string) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lose(name)
	}()
	return serveDriver(ctx, c.config.Network, c.setup(), name, dir)
}

// setup returns what executors of this context are told.
func (c *Context) setup() setup {
	memory := int64(c.config.MemoryMB * (1 << 20))
	return setup{
		Driver: c.address, Token: c.token, Host: c.config.Host, Mode: c.config.Mode, Slots: c.config.Slots,
		MemoryBytes: memory, CacheBytes: memory * 6 / 10, ShuffleBytes: memory * 2 / 10,
	}
}

// serveDriver is the life of an executor: it serves what it holds, and works until the driver does not want it any
// more.
func serveDriver(ctx context.Context, network Network, s setup, name plan.Place, dir string) error {
	w, stop, err := newWorker(ctx, network, s, dir)
	if err != nil {
		return err
	}
	defer w.client.http.CloseIdleConnections()
	defer stop()
	return w.work(ctx, s, name)
}
