package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// sure asks before something is lost for ever. Who is not at a terminal must have said --force.
func (a *App) sure(ctx context.Context, force bool, what string) error {
	if force {
		return nil
	}
	if !a.Asks {
		return usagef("this would %s, and nobody is here to be asked; say --force", what)
	}
	fmt.Fprintf(a.Stderr, "This will %s. Go on? [y/N] ", what)
	answered := make(chan string, 1)
	go func() { // lives as long as the process when there is no answer: a read can't be called back
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n') // what was typed before the end counts
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
