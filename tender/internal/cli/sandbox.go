package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/frames"
	"github.com/tenderhq/tender/internal/sandbox"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/logtail"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/show"
	"github.com/tenderhq/tender/tender/internal/cli/terminal"
)

func cpCommand(who *caller.Caller) *cobra.Command {
	var executor bool
	command := &cobra.Command{
		Use:   "cp TASK:PATH [TO]",
		Short: "Copy a file from a task's sandbox",
		Long: "Copy a file from a task's sandbox. After the task's end that works for as long as its agent keeps the sandbox. TO is a\n" +
			"file, a folder, or - for stdout; by default the file is put here under its own name. If PATH is a folder, the command\n" +
			"says what it contains. With --executor, copy from the folder of the task's executor.\n\n" +
			"TASK is FRAMEWORK/TASK, or any unique start of that or of the task's own ID.",
		Args:              caller.Between(1, "TASK:PATH", "TO"),
		ValidArgsFunction: completeIDs(who, "tasks"),
	}
	command.Flags().BoolVar(&executor, "executor", false, "copy from the folder of the task's executor instead")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		word, name, named := strings.Cut(args[0], ":")
		if !named || word == "" {
			return caller.Usagef("%q names no file of a task; write TASK:PATH, as in framework-1/job.0:result.txt", args[0])
		}
		file, err := fileOf(ctx, c, word, name, executor)
		if err != nil {
			return err
		}
		to := "."
		if len(args) == 2 {
			to = args[1]
		}
		if to == "-" {
			return file.Copy(ctx, who.Stdout)
		}
		return copyTo(to, path.Base(name), func(w io.Writer) error { return file.Copy(ctx, w) })
	})
	return command
}

// filesMax is how many files of a folder are listed, unless more are asked for.
const filesMax = 1000

func filesCommand(who *caller.Caller) *cobra.Command {
	var executor bool
	var limit int
	command := &cobra.Command{
		Use:   "files TASK [PATH]",
		Short: "List the files of a task's sandbox",
		Long: "List the files in a task's sandbox, or in a folder of it. After the task's end that works for as long as its agent keeps\n" +
			"the sandbox. With --executor, list the folder of the task's executor. 'tender cp TASK:PATH -' prints a file.\n\n" +
			"TASK is FRAMEWORK/TASK, or any unique start of that or of the task's own ID.",
		Args:              caller.Between(1, "TASK", "PATH"),
		ValidArgsFunction: completeIDs(who, "tasks"),
	}
	command.Flags().BoolVar(&executor, "executor", false, "list the folder of the task's executor instead")
	format := show.FormatFlag(command.Flags(), show.AsTable, show.AsJSON, show.AsName)
	command.Flags().IntVar(&limit, "limit", filesMax, "list at most this many")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		if limit < 1 {
			return caller.Usagef("--limit is %d; write how many are wanted", limit)
		}
		name := ""
		if len(args) == 2 {
			name = args[1]
		}
		if task, folder, is := strings.Cut(args[0], ":"); is {
			return caller.Usagef("%q is no task; write 'tender files %s %s'", args[0], task, folder)
		}
		file, err := fileOf(ctx, c, args[0], name, executor)
		if err != nil {
			return err
		}
		items, more, err := file.List(ctx, limit)
		if err != nil {
			return err
		}
		if more {
			fmt.Fprintf(who.Stderr, "there are more; --limit has cut the list\n")
		}
		return printFiles(who.Stdout, format, items)
	})
	return command
}

// fileOf returns a file of a task, or of its executor, at its agent.
func fileOf(ctx context.Context, c *client.Client, word, name string, executor bool) (sandbox.File, error) {
	task, err := nouns.Task(ctx, c, word)
	if err != nil {
		return sandbox.File{}, err
	}
	if task.GetAgentId() == "" {
		return sandbox.File{}, fmt.Errorf("%s is %s and was never on an agent, so it has no files", nouns.TaskRef(task), task.GetState())
	}
	ref := api.TaskRef{Framework: api.FrameworkID(task.GetFrameworkId()), Task: api.TaskID(task.GetId())}
	address, err := agentAddress(c, task)(ctx)
	if err != nil {
		return sandbox.File{}, err
	}
	ticket, _, err := c.ReadTicket(ctx, ref, api.AgentID(task.GetAgentId()))
	return sandbox.File{Task: ref, Path: name, Executor: executor, Address: address, Dial: c.DialAgent, Ticket: ticket}, err
}

func printFiles(to io.Writer, format *show.Format, items []sandbox.Item) error {
	switch {
	case format.Is(show.AsJSON):
		return show.Indented(to, map[string]any{"items": append([]sandbox.Item{}, items...)})
	case format.Is(show.AsName):
		for _, item := range items {
			if _, err := fmt.Fprintln(to, item.Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		return nil
	}
	var rows [][]string
	for _, item := range items {
		rows = append(rows, []string{item.Name, item.Kind, strconv.FormatInt(item.Bytes, 10), item.Modified.Format(time.DateTime)})
	}
	return show.Table(to, []string{"NAME", "KIND", "BYTES", "MODIFIED"}, rows)
}

// copyTo writes a file; if to is a folder, in that folder under its own name.
func copyTo(to, name string, write func(w io.Writer) error) error {
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, name)
	}
	return whole(to, write)
}

// whole writes a file that exists only once it is complete, so that half of one is not taken for a whole one. It writes
// a temporary file first, but its errors name the final file.
func whole(name string, write func(w io.Writer) error) error {
	part, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return unwritten(name, err)
	}
	defer os.Remove(part.Name()) // it is gone if everything went well
	if err := write(part); err != nil {
		_ = part.Close() // err says more
		return unwritten(name, err)
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return unwritten(name, err)
	}
	return unwritten(name, os.Rename(part.Name(), name))
}

// unwritten returns the error of a file that was to be written, with the name of that file.
func unwritten(name string, err error) error {
	var file *fs.PathError
	var move *os.LinkError
	switch {
	case errors.As(err, &file):
		return fmt.Errorf("%s can't be written: %w", name, file.Err)
	case errors.As(err, &move):
		return fmt.Errorf("%s can't be written: %w", name, move.Err)
	}
	return err
}

// execFlags are the flags of `tender exec`.
type execFlags struct{ stdin, tty bool }

func execCommand(who *caller.Caller) *cobra.Command {
	var f execFlags
	command := &cobra.Command{
		Use:   "exec [flags] TASK -- COMMAND [ARGUMENT...]",
		Short: "Run a command inside a running task",
		Long: "Run a command inside a running task: in its sandbox, as its user, with its environment and isolation. The exit code is\n" +
			"that of the command. The command ends, with everything that it has started, when this connection ends or the task does.\n" +
			"An agent limits how many such commands run at the same time (--exec-max of 'tender agent').\n\n" +
			"TASK is FRAMEWORK/TASK, or any unique start of that or of the task's own ID.",
		Example: "  tender exec site.0 -- ps aux\n" +
			"  tender exec -it site.0 -- sh",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return caller.Usagef("'tender exec' needs a task and a command; write 'tender exec TASK -- COMMAND'")
			}
			return nil
		},
		ValidArgsFunction: completeIDs(who, "tasks"),
	}
	flags := command.Flags()
	flags.SetInterspersed(false)
	flags.BoolVarP(&f.stdin, "stdin", "i", false, "pass standard input on to the command")
	flags.BoolVarP(&f.tty, "tty", "t", false, "give the command a terminal of the same size as this one")
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
		argv := args[1:]
		if argv[0] == "--" {
			argv = argv[1:]
		}
		if len(argv) == 0 {
			return caller.Usagef("'tender exec' needs a command; write 'tender exec TASK -- COMMAND'")
		}
		return execInside(ctx, who, c, args[0], argv, f)
	})
	return command
}

func execInside(ctx context.Context, who *caller.Caller, c *client.Client, word string, argv []string, f execFlags) error {
	task, err := nouns.Task(ctx, c, word)
	if err != nil {
		return err
	}
	if task.GetAgentId() == "" || logtail.HasEnded(task) {
		return fmt.Errorf("%s is %s; a command runs only beside a task that runs", nouns.TaskRef(task), task.GetState())
	}
	address, err := agentAddress(c, task)(ctx)
	if err != nil {
		return err
	}
	if address == "" {
		return fmt.Errorf("%s can't be entered: %w", nouns.TaskRef(task), sandbox.ErrNoAddress)
	}
	ref := api.TaskRef{Framework: api.FrameworkID(task.GetFrameworkId()), Task: api.TaskID(task.GetId())}
	ticket, err := c.ExecTicket(ctx, ref, api.AgentID(task.GetAgentId()))
	if err != nil {
		return err
	}
	transport := logtail.Transport(c.DialAgent)
	defer transport.CloseIdleConnections()
	// An interrupt is passed to the command first, so the connection must outlive it.
	conn, err := frames.Dial(context.WithoutCancel(ctx), &http.Client{Transport: transport}, address, ref, ticket)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the session is over
	kind, _ := who.Lookup("TERM")
	s := &terminal.Session{Conn: conn, Stdin: who.Stdin, Typed: f.stdin, Stdout: who.Stdout, Stderr: who.Stderr, Term: kind}
	code, err := s.Run(ctx, frames.Command{Argv: argv, TTY: f.tty}, signalFor)
	if err == nil && code != 0 {
		return caller.Failure{Code: code}
	}
	return err
}

// signalFor returns the signal that has ended the context of this command.
func signalFor(ctx context.Context) syscall.Signal {
	if stop := (interrupted{}); errors.As(context.Cause(ctx), &stop) {
		if is, ok := stop.signal.(syscall.Signal); ok {
			return is
		}
	}
	return syscall.SIGTERM
}
