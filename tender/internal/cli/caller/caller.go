// Package caller is who has typed a command, and what every command stands on: the terminal, the environment and the clock
// of the caller, the cluster that the command is about, and how mistakes are answered: in a sentence, with an exit code. It
// reads no flags but the two that all commands have, and ends no process.
package caller

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/contexts"
)

// Caller is who has typed a command.
type Caller struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Lookup         func(string) (string, bool) // the environment
	Now            func() time.Time
	Terminal       bool // whether Stderr is a terminal
	Asks           bool // whether a person reads Stderr and types into Stdin
	// Dial opens connections to masters. Default TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	Masters []string // --master
	Context string   // --context
}

// Cluster returns the cluster that a command is about, and who the command is there.
func (who *Caller) Cluster(ctx context.Context) (contexts.Cluster, error) {
	masters, err := who.MastersOr(nil)
	if err != nil {
		return contexts.Cluster{}, err
	}
	return contexts.Find(ctx, contexts.Wish{
		Context: who.Context, Masters: masters, Master: client.DefaultMaster, Lookup: who.Lookup, Dial: who.Dial,
		Waits: func(err error) { who.SayUnless(false)("waiting for a master: %s", Sentence(err)) },
	})
}

// Client returns a client of the masters of that cluster.
func (who *Caller) Client(ctx context.Context) (*client.Client, error) {
	where, err := who.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	c, err := ClientOf(where, who.SayOnce())
	if err != nil {
		return nil, Usage(err)
	}
	return c, nil
}

// SayOnce returns a function that says why a watch hears nothing, each reason once.
func (who *Caller) SayOnce() func(error) {
	said := ""
	return func(err error) {
		if why := Sentence(err); why != said {
			said = why
			fmt.Fprintf(who.Stderr, "tender: waiting for a master: %s\n", why)
		}
	}
}

// ClientOf returns a client of the masters of a cluster; waiting is told why none is reached.
func ClientOf(where contexts.Cluster, waiting func(error)) (*client.Client, error) {
	return client.New(client.Config{
		Masters: where.Masters, Dial: where.ToMasters(), DialAgent: where.ToAgents(), Tickets: where.Holder != nil, Keep: where.Keep, Told: where.Told,
		Waiting: waiting,
	})
}

// MastersOr returns the masters that --master names, else those of the environment, else otherwise.
func (who *Caller) MastersOr(otherwise []string) ([]string, error) {
	masters, where := who.Masters, "--master"
	if len(masters) == 0 {
		if text, ok := who.Lookup("TENDER_MASTER"); ok && text != "" {
			masters, where = SplitList(text), "TENDER_MASTER"
		}
	}
	for _, address := range masters {
		if err := client.CheckAddress(address); err != nil {
			return nil, Usage(fmt.Errorf("%s: %w", where, err))
		}
	}
	if len(masters) == 0 {
		return otherwise, nil
	}
	return masters, nil
}

// WithClient makes the function of a command that calls the leading master.
func (who *Caller) WithClient(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) (err error) {
		c, err := who.Client(command.Context())
		if err != nil {
			return err
		}
		defer func() {
			if failed := c.Close(); err == nil {
				err = failed
			}
		}()
		return run(command.Context(), c, args)
	}
}

// SayUnless returns a function that says a line beside the output, unless the caller wants quiet.
func (who *Caller) SayUnless(quiet bool) func(string, ...any) {
	w := who.Stderr
	if quiet {
		w = io.Discard
	}
	return func(format string, args ...any) { fmt.Fprintf(w, "tender: "+format+"\n", args...) }
}

// TellAnswer prints the result of an action, or returns why there is none.
func (who *Caller) TellAnswer(answer *apiv1.ActionResponse, err error) error {
	if err != nil {
		return err
	}
	text := cmp.Or(answer.GetMessage(), "done")
	if !strings.Contains(text, answer.GetSubject()) {
		text = answer.GetSubject() + ": " + text
	}
	_, err = fmt.Fprintln(who.Stdout, text)
	return err
}

// Confirm asks before something is lost for ever. Without a terminal, --force is required.
func (who *Caller) Confirm(ctx context.Context, force bool, what string) error {
	if force {
		return nil
	}
	if !who.Asks {
		return Usagef("this would %s, and there is no terminal to ask; confirm it with --force", what)
	}
	fmt.Fprintf(who.Stderr, "This will %s. Go on? [y/N] ", what)
	answered := make(chan string, 1)
	go func() { // if there is no answer it lives as long as the process, because a read can't be interrupted
		line, _ := bufio.NewReader(who.Stdin).ReadString('\n') // text before the end of the input counts
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answered:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return errors.New("nothing was done")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SplitList returns the words between commas.
func SplitList(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
