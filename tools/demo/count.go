package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/tenderhq/tender/tools/devcluster"
)

// count starts a cluster of three masters and four agents, counts the words of Go's standard library on it, and compares
// with a plain count. With chaos the masters are processes of their own, and the leading one is killed halfway.
func count(ctx context.Context, binary string, chaos bool) (err error) {
	s, err := open(ctx, devcluster.Options{Binary: binary, Masters: 3, Agents: 4, Processes: chaos, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	wordcount, err := build(ctx, s.Dir, "wordcount")
	if err != nil {
		return err
	}
	args := []string{"-master", s.MasterAddresses(), "-verify"}
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		args = append(args, "-progress", "bar")
	}
	command := exec.CommandContext(ctx, wordcount, args...)
	command.Cancel = func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.show()
		}
		return command.Process.Signal(os.Interrupt)
	}
	command.WaitDelay = time.Minute
	half := make(chan struct{})
	command.Stdout, command.Stderr = os.Stdout, &progress{out: os.Stderr, half: half}
	if err := command.Start(); err != nil {
		return err
	}
	killed, ended := make(chan error, 1), make(chan struct{})
	go func() {
		select {
		case <-half:
			if chaos {
				killed <- s.killLeader(ctx)
			}
			close(killed)
		case <-ended:
			killed <- errors.New("the count ended before it was halfway")
		}
	}()
	err = command.Wait()
	close(ended)
	if err := errors.Join(err, <-killed); err != nil {
		return err
	}
	said, err := s.tender(ctx, "", "verify")
	_, _ = os.Stderr.Write(said) // the error says the same
	return err
}

// show prints the state of the cluster, for finding out what the count waited for.
func (s stage) show() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, what := range []string{"masters", "agents", "frameworks", "tasks", "offers"} {
		out, err := s.tender(ctx, "", "get", what)
		fmt.Fprintf(os.Stderr, "$ tender get %s\n%s", what, out)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// progress passes a progress report on, and closes half when half of the work is done.
type progress struct {
	out  io.Writer
	half chan struct{}
	done bool
}

var doneOf = regexp.MustCompile(`(\d+)/(\d+) tasks`)

func (p *progress) Write(data []byte) (int, error) {
	for _, match := range doneOf.FindAllSubmatch(data, -1) {
		n, _ := strconv.Atoi(string(match[1])) // it consists of digits
		of, _ := strconv.Atoi(string(match[2]))
		if !p.done && 2*n >= of {
			p.done = true
			close(p.half)
		}
	}
	return p.out.Write(data)
}
