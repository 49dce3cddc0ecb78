package agent

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/tenderhq/tender/framework/executor"
)

// ownEnv has this test's program be an executor of a framework's own.
const ownEnv = "TEST_OWN_EXECUTOR"

// runOwn runs lines of a shell as tasks, which give back what these say, and ends with its agent's order.
func runOwn() {
	err := executor.Run(context.Background(), func(ctx context.Context, task *executor.Task) error {
		line := exec.CommandContext(ctx, "/bin/sh", "-c", string(task.Data))
		line.Dir = task.Sandbox
		if err := os.MkdirAll(task.Sandbox, 0o700); err != nil {
			return err
		}
		said, err := line.CombinedOutput()
		task.SetResult(said)
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
