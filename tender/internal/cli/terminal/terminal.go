// Package terminal is the local end of a command that runs inside a task: it passes on what is typed, the size of the
// terminal and signals, writes what comes back, and returns the exit code. It knows nothing of masters.
package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/tenderhq/tender/internal/frames"
)

// Session is one command that runs.
type Session struct {
	// Conn is the connection to the agent.
	Conn io.ReadWriter
	// Stdin is passed to the command if Typed is set.
	Stdin          io.Reader
	Typed          bool
	Stdout, Stderr io.Writer
	// Term is the type of this terminal.
	Term string

	to *frames.Writer
}

// Run runs the command to its end and returns its exit code. When the context ends, the command is sent the signal that
// signalOf returns.
func (s *Session) Run(ctx context.Context, command frames.Command, signalOf func(context.Context) syscall.Signal) (code int, err error) {
	s.to = frames.NewWriter(s.Conn)
	keyboard, isFile := s.Stdin.(*os.File)
	if isFile && command.TTY && term.IsTerminal(int(keyboard.Fd())) {
		restore, err := s.takeTerminal(keyboard, &command)
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	if err := s.to.WriteJSON(frames.Order, command); err != nil {
		return 0, err
	}
	over := make(chan struct{})
	defer close(over)
	go func() { // it ends with Run
		select {
		case <-ctx.Done():
			_ = s.to.Write(frames.Signal, []byte{byte(signalOf(ctx))}) // a session that is over reports that itself
		case <-over:
		}
	}()
	if s.Typed {
		go s.passStdin() // it reads until this process ends
	} else if err := s.to.Write(frames.StdinEnd, nil); err != nil && !command.TTY {
		return 0, err
	}
	return s.toEnd()
}

// passStdin passes on what is typed, and the end of it.
func (s *Session) passStdin() {
	if s.to.Copy(frames.Stdin, s.Stdin) == nil {
		_ = s.to.Write(frames.StdinEnd, nil) // a session that is over reports that itself
	}
}

// takeTerminal passes on every key as it is, and the terminal's size now and whenever it changes.
func (s *Session) takeTerminal(keyboard *os.File, command *frames.Command) (restore func(), err error) {
	fd := int(keyboard.Fd())
	if cols, rows, err := term.GetSize(fd); err == nil {
		command.Rows, command.Cols = uint16(rows), uint16(cols)
	}
	command.Term = s.Term
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	go func() { // until restore is called
		for range resized {
			if cols, rows, err := term.GetSize(fd); err == nil {
				_ = s.to.WriteSize(uint16(rows), uint16(cols)) // as above
			}
		}
	}()
	return func() {
		signal.Stop(resized)
		close(resized)
		_ = term.Restore(fd, before) // nothing can be done about an error
	}, nil
}

// toEnd writes what arrives, until the agent says how the command ended.
func (s *Session) toEnd() (code int, err error) {
	for {
		kind, content, err := frames.Read(s.Conn)
		if err != nil {
			return 0, fmt.Errorf("the agent broke off: %w", err)
		}
		switch kind {
		case frames.Stdout:
			_, err = s.Stdout.Write(content)
		case frames.Stderr:
			_, err = s.Stderr.Write(content)
		case frames.Ended:
			var end frames.End
			if err := json.Unmarshal(content, &end); err != nil {
				return 0, err
			}
			if end.Why != "" {
				return 0, errors.New(end.Why)
			}
			return end.Code, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
