package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
)

// sure asks before something is lost for ever. Without a terminal, --force is required.
func (a *App) sure(ctx context.Context, force bool, what string) error {
	if force {
		return nil
	}
	if !a.Asks {
		return usagef("this would %s, and there is no terminal to ask; confirm it with --force", what)
	}
	fmt.Fprintf(a.Stderr, "This will %s. Go on? [y/N] ", what)
	answered := make(chan string, 1)
	go func() { // if there is no answer it lives as long as the process, because a read can't be interrupted
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n') // text before the end of the input counts
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
