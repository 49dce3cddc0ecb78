package framework

import (
	"context"
	"errors"
	"io"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/sandbox"
)

var errNoSuchTask = errors.New("the masters know no such task of this framework (any more)")

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
	const op = "task.file"
	if err := api.CheckID("task", string(task)); err != nil {
		return api.E(op, api.Invalid, task, err)
	}
	ref := api.TaskRef{Framework: c.FrameworkID(), Task: task}
	var found *apiv1.TaskView
	var ticket string
	err := c.atLeader(ctx, op, ref.String(), func(ctx context.Context, p place) (err error) {
		ref.Framework = api.FrameworkID(p.session.GetFrameworkId())
		if found, err = findTask(ctx, p.operator, ref); err == nil {
			ticket, err = c.loop.who.ticket(ctx, p.operator, ref, found.GetAgentId())
		}
		return err
	})
	if err != nil {
		return err
	}
	file := sandbox.File{Task: ref, Path: path, Address: found.GetAgentAddress(), Dial: c.loop.who.toAgent, Ticket: ticket, Most: most}
	return file.Copy(ctx, to)
}

// findTask asks the leader for one task, ended ones included.
func findTask(ctx context.Context, operator apiv1.OperatorServiceClient, ref api.TaskRef) (*apiv1.TaskView, error) {
	ask := &apiv1.ListTasksRequest{Prefix: ref.String(), FrameworkId: string(ref.Framework), All: true}
	for {
		list, err := operator.ListTasks(ctx, ask)
		if err != nil {
			return nil, err
		}
		for _, task := range list.GetItems() {
			if task.GetId() == string(ref.Task) {
				return task, nil
			}
		}
		if ask.PageToken = list.GetNextPageToken(); ask.PageToken == "" {
			return nil, api.E("task.file", api.NotFound, ref.String(), errNoSuchTask)
		}
	}
}
