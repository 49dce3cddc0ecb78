package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/cli/client"
	"github.com/tenderhq/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/internal/sandbox"
)

func (a *App) cpCommand() *cobra.Command {
	var executor bool
	command := &cobra.Command{
		Use:   "cp TASK:PATH [TO]",
		Short: "Copy a file from a task's sandbox",
		Long: "Copy a file that a task has written into its sandbox, also after its end for as long as its agent keeps that.\n" +
			"TO is a file, a folder, or - for stdout; by default the file comes here under its own name. With --executor, a file\n" +
			"of the folder of the task's executor. Of a folder it says what that has.\n\n" +
			"TASK is FRAMEWORK/TASK, or any unique start of it or of the task's own ID.",
		Args:              between(1, "TASK:PATH", "TO"),
		ValidArgsFunction: a.completeIDs("tasks"),
	}
	command.Flags().BoolVar(&executor, "executor", false, "from the folder of the task's executor instead")
	command.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		word, name, named := strings.Cut(args[0], ":")
		if !named || word == "" {
			return usagef("%q names no file of a task; write TASK:PATH, as in framework-1/job.0:result.txt", args[0])
		}
		task, err := nouns.Task(ctx, c, word)
		if err != nil {
			return err
		}
		if task.GetAgentId() == "" {
			return fmt.Errorf("%s is %s and was never on an agent, so it has no files", nouns.TaskRef(task), task.GetState())
		}
		address, err := agentAddress(c, task)(ctx)
		if err != nil {
			return err
		}
		to := "."
		if len(args) == 2 {
			to = args[1]
		}
		file := sandbox.File{
			Task: api.TaskRef{Framework: api.FrameworkID(task.GetFrameworkId()), Task: api.TaskID(task.GetId())},
			Path: name, Executor: executor, Address: address,
		}
		if to == "-" {
			return file.Copy(ctx, a.Stdout)
		}
		return copyTo(to, path.Base(name), func(w io.Writer) error { return file.Copy(ctx, w) })
	})
	return command
}

// copyTo has a file written, in a folder under its own name. It is there when it is whole.
func copyTo(to, name string, write func(w io.Writer) error) error {
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, name)
	}
	part, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // it is gone when all went well
	if err := write(part); err != nil {
		_ = part.Close() // err says more
		return err
	}
	if err := part.Close(); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}
