package framework

import (
	"context"
	"fmt"
	"io"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/sandbox"
)

// ReadFile writes a file of a task's sandbox to the writer, such as a result that is larger than the 64 KiB of a
// status's data. The file may have at most this many bytes; 0 means any number. It is read from the task's agent while
// the task runs, and after its end for as long as the agent keeps the sandbox: a week, or less where its disk gets
// full.
//
// The kind of the error says what is wrong: [api.NotFound] for a task or a file that is not there (any more),
// [api.Limit] for a file that is larger, [api.Invalid] for a folder, with the names of its files, and [api.Unavailable]
// for an agent that can't be reached or broke off. In that last case a part may have been written.
//
// ReadFile waits for a session, asks the leader for the address of the agent's HTTP port, and connects there by
// Config.Dialer. In a callback it holds up all other callbacks, so read large files in a goroutine.
func (c *Client) ReadFile(ctx context.Context, task api.TaskID, path string, to io.Writer, most int64) error {
	file, err := c.findFile(ctx, task, path)
	if err != nil {
		return err
	}
	file.Most = most
	return file.Copy(ctx, to)
}

// FollowOutput writes an output of a task, which is stdout or stderr, to the writer: what there is from the offset on, 0
// for all, and then what is added, as it is added. It returns nil when the task has ended and all of its output was
// written, and ctx's error when ctx ends. It always returns the offset at which to go on, so whoever wants to know of an
// agent that was restarted meanwhile calls it again with that:
//
//	for offset, err := int64(0), error(nil); ; {
//		if offset, err = client.FollowOutput(ctx, task, "stdout", offset, os.Stdout); !api.Is(err, api.Unavailable) {
//			return err
//		}
//	}
//
// The kinds of errors are those of [Client.ReadFile]: [api.NotFound] also for a task that was launched and has not
// started yet, so begin when it is RUNNING. Of an output that is longer than what the agent keeps, the beginning is
// missing. FollowOutput takes as long as the task, so call it in a goroutine, never in a callback.
func (c *Client) FollowOutput(ctx context.Context, task api.TaskID, output string, offset int64, to io.Writer) (next int64, err error) {
	if output != "stdout" && output != "stderr" || offset < 0 {
		return offset, api.E("task.file", api.Invalid, task, fmt.Errorf("%q from %d on is no output; ask for stdout or stderr from 0 on", output, offset))
	}
	file, err := c.findFile(ctx, task, output)
	if err != nil {
		return offset, err
	}
	written, err := file.Follow(ctx, offset, to)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return offset + written, err
}

// findFile asks the leader where a file of a task is, and for the ticket to read it.
func (c *Client) findFile(ctx context.Context, task api.TaskID, path string) (sandbox.File, error) {
	const op = "task.file"
	if err := api.CheckID("task", string(task)); err != nil {
		return sandbox.File{}, api.E(op, api.Invalid, task, err)
	}
	ref := api.TaskRef{Framework: c.FrameworkID(), Task: task}
	var found *apiv1.TaskView
	var ticket string
	err := c.present.atLeader(ctx, op, ref.String(), func(ctx context.Context, p place) (err error) {
		ref.Framework = api.FrameworkID(p.session.GetFrameworkId())
		if found, err = p.operator.GetTask(ctx, &apiv1.GetTaskRequest{Task: ref.String(), Exact: true}); err == nil {
			ticket, err = c.loop.who.ticket(ctx, p.operator, ref, found.GetAgentId())
		}
		return err
	})
	return sandbox.File{Task: ref, Path: path, Address: found.GetAgentAddress(), Dial: c.loop.who.toAgent, Ticket: ticket}, err
}
