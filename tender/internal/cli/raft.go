package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

func raftCommand(who *caller.Caller) *cobra.Command {
	raft := &cobra.Command{Use: "raft", Short: "Show and change the quorum of masters"}
	snapshot := &cobra.Command{Use: "snapshot", Short: "Save, inspect and restore what the quorum stores"}
	add(snapshot, "", snapshotSaveCommand(who), snapshotInspectCommand(who), snapshotRestoreCommand(who))
	add(raft, "", peersCommand(who), addPeerCommand(who), removePeerCommand(who), transferCommand(who), snapshot, recoverCommand(who))
	return raft
}

func peersCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{Use: "peers", Short: "List the members of the quorum", Args: caller.Exactly()}
	format := show.FormatFlag(command.Flags(), show.AsTable, show.AsJSON)
	command.RunE = who.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
		answer, err := c.Raft().ListPeers(ctx, &apiv1.ListPeersRequest{})
		switch {
		case err != nil:
			return err
		case format.Is(show.AsJSON):
			return show.JSON(who.Stdout, answer)
		}
		var rows [][]string
		for _, peer := range answer.GetItems() {
			rows = append(rows, []string{peer.GetId(), peer.GetRole(), peer.GetRaftAddress()})
		}
		return writeTable(who, "members", []string{"MASTER", "ROLE", "RAFT"}, rows)
	})
	return command
}

func addPeerCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use:   "add MASTER RAFT-ADDRESS",
		Short: "Add a master to the quorum",
		Long: "Add a master to the quorum. It must be running, with a new data folder. It gets a vote when it has caught up.\n\n" +
			"RAFT-ADDRESS is the HOST:PORT at which the other masters reach it (port 5070 by default).",
		Args: caller.Exactly("MASTER", "RAFT-ADDRESS"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if client.CheckAddress(args[1]) != nil {
				return caller.Usagef("%q is not an address; write HOST:PORT, such as 10.0.0.4:5070", args[1])
			}
			return who.TellAnswer(c.Raft().AddPeer(ctx, &apiv1.AddPeerRequest{Id: args[0], RaftAddress: args[1]}))
		}),
	}
}

func removePeerCommand(who *caller.Caller) *cobra.Command {
	force := false
	command := &cobra.Command{
		Use:   "remove MASTER",
		Short: "Remove a master from the quorum",
		Long: "Remove a master from the quorum. It is refused when most of the masters that are left do not answer: then nobody could lead.\n" +
			"With --force it is removed all the same, and the cluster stands still until enough of them answer.",
		Args:              caller.Exactly("MASTER"),
		ValidArgsFunction: completeIDs(who, "masters"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return who.TellAnswer(c.Raft().RemovePeer(ctx, &apiv1.RemovePeerRequest{Id: args[0], Force: force}))
		}),
	}
	command.Flags().BoolVar(&force, "force", false, "even if nobody can lead without it")
	return command
}

func transferCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use:               "transfer-leader [MASTER]",
		Short:             "Make another master the leader",
		Args:              caller.Between(0, "MASTER"),
		ValidArgsFunction: completeIDs(who, "masters"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			request := &apiv1.TransferLeaderRequest{}
			if len(args) == 1 {
				request.Id = args[0]
			}
			return who.TellAnswer(c.Raft().TransferLeader(ctx, request))
		}),
	}
}

func snapshotSaveCommand(who *caller.Caller) *cobra.Command {
	return &cobra.Command{
		Use:   "save FILE",
		Short: "Save a snapshot of the registry to a file",
		Long:  "Save a snapshot of the registry to a file, which must not exist yet. FILE appears only when the snapshot is complete.",
		Args:  caller.Exactly("FILE"),
		RunE: who.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if _, err := os.Lstat(args[0]); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s exists already; name a new file", args[0])
			}
			var bytes int64
			if err := whole(args[0], func(w io.Writer) (err error) {
				bytes, err = receiveSnapshot(ctx, c, w)
				return err
			}); err != nil {
				return err
			}
			_, err := fmt.Fprintln(who.Stdout, args[0]+": "+strconv.FormatInt(bytes, 10)+" bytes")
			return err
		}),
	}
}

func receiveSnapshot(ctx context.Context, c *client.Client, w io.Writer) (bytes int64, err error) {
	stream, err := c.Raft().SaveSnapshot(ctx, &apiv1.SaveSnapshotRequest{})
	if err != nil {
		return 0, err
	}
	for {
		chunk, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return bytes, nil
		case err != nil:
			return bytes, client.Error(err)
		}
		n, err := w.Write(chunk.GetData())
		bytes += int64(n)
		if err != nil {
			return bytes, err
		}
	}
}
