package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenderhq/tender/agent"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/words"
	"github.com/tenderhq/tender/master"
	"github.com/tenderhq/tender/tender/internal/cli/caller"
	"github.com/tenderhq/tender/tender/internal/cli/show"
)

// Commands that work on files while no master or agent uses them.

func snapshotInspectCommand(who *caller.Caller) *cobra.Command {
	command := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Verify a saved snapshot and say what it contains",
		Long:  "Read a saved snapshot completely, verify its checksum and its hash, and say what it contains. No master is needed.",
		Args:  caller.Exactly("FILE"),
	}
	format := show.FormatFlag(command.Flags(), show.AsText, show.AsJSON)
	command.RunE = func(_ *cobra.Command, args []string) error {
		found, err := readSnapshotFile(args[0], master.InspectSnapshot)
		if err != nil {
			return err
		}
		if format.Is(show.AsJSON) {
			return writeSnapshotJSON(who, found)
		}
		return show.Fields(who.Stdout, snapshotFields(found))
	}
	return command
}

// readSnapshotFile reads a snapshot; its errors name the file.
func readSnapshotFile(name string, read func(io.Reader) (master.Snapshot, error)) (master.Snapshot, error) {
	file, err := os.Open(name)
	if err != nil {
		return master.Snapshot{}, err
	}
	found, err := read(file)
	var known *api.Error
	if errors.As(err, &known) && known.Kind == api.Invalid && known.Subject == "" {
		err = fmt.Errorf("%s: %w", name, known.Err)
	}
	return found, errors.Join(err, file.Close())
}

func snapshotFields(s master.Snapshot) [][2]string {
	frameworks := strconv.Itoa(s.Frameworks)
	if s.Tombstones > 0 {
		frameworks += fmt.Sprintf(" and %d removed", s.Tombstones)
	}
	return [][2]string{
		{"Cluster", string(s.Cluster)},
		{"Term", api.Term{Epoch: s.Epoch, Number: s.Term}.String()},
		{"Index", strconv.FormatUint(s.Index, 10)},
		{"Hash", s.Hash},
		{"Masters", strconv.Itoa(s.Masters)},
		{"Agents", strconv.Itoa(s.Agents)},
		{"Frameworks", frameworks},
		{"Roles", strconv.Itoa(s.Roles)},
		{"Store", strconv.FormatInt(s.StoreBytes, 10) + " bytes"},
	}
}

// writeSnapshotJSON writes a snapshot with the field names of our other JSON.
func writeSnapshotJSON(who *caller.Caller, s master.Snapshot) error {
	return show.Indented(who.Stdout, map[string]any{
		"cluster_id": s.Cluster, "epoch": s.Epoch, "term": s.Term, "index": s.Index, "hash": s.Hash, "masters": s.Masters,
		"agents": s.Agents, "frameworks": s.Frameworks, "removed_frameworks": s.Tombstones, "roles": s.Roles, "store_bytes": s.StoreBytes,
	})
}

func snapshotRestoreCommand(who *caller.Caller) *cobra.Command {
	var dataDir, id, address string
	command := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a new data folder from a saved snapshot",
		Long: "Make a new data folder from a saved snapshot: the folder of a quorum of one, in a higher epoch. Start a master with it,\n" +
			"then let others join (--join FILE; without certificates 'tender raft add'). No master of the old quorum may run any\n" +
			"more; agents that have met the new one obey no old one. Changes since the snapshot are lost, but not tasks: agents\n" +
			"report what they run.",
		Example: "  tender raft snapshot restore saved --data-dir /var/lib/tender/m1 --id m1 --raft-address 10.0.0.1:5070",
		Args:    caller.Exactly("FILE"),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&dataDir, "data-dir", "", "folder to make; it must be empty or not exist (required)")
	flags.StringVar(&id, "id", "m1", "name of the master that will use it")
	flags.StringVar(&address, "raft-address", "127.0.0.1:5070", "HOST:PORT at which other masters will reach it")
	command.RunE = func(_ *cobra.Command, args []string) error {
		if err := checkOffline(dataDir, address); err != nil {
			return err
		}
		self := master.Peer{ID: api.MasterID(id), Addr: address}
		found, err := readSnapshotFile(args[0], func(r io.Reader) (master.Snapshot, error) { return master.RestoreSnapshot(dataDir, self, r) })
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(who.Stdout, "%s is the folder of master %s now, with %s and %s of %s, in epoch %d\n"+
			"a cluster with certificates: copy its %s, which no snapshot holds, into the folder; another one: add --insecure\n"+
			"what has happened so far is in the folder history of each old data folder: copy one into the folder to keep it\n"+
			"start it with: tender master --data-dir %s\n",
			dataDir, id, words.Count(found.Agents, "agent"), words.Count(found.Frameworks, "framework"), found.Cluster, found.Epoch+1, trust.KeyFile, dataDir)
		if err != nil || len(found.Principals)+len(found.Tokens) == 0 {
			return err
		}
		_, err = fmt.Fprintf(who.Stdout, "whatever was revoked since the snapshot was taken counts again; revoke it once more, before others join:\n"+
			"  principals that may do something: %s\n  tokens that let somebody in: %s\n"+
			"  agents that were removed since then are admitted again: tender remove AGENT\n",
			listed(found.Principals, "tender revoke NAME"), listed(found.Tokens, "tender token revoke ID"))
		return err
	}
	return command
}

// listedMax bounds the names that are listed for a person.
const listedMax = 50

// listed returns names for a person, with the command that takes one back; "none" if there are none.
func listed(names []string, command string) string {
	if len(names) == 0 {
		return "none"
	}
	return words.Some(names, listedMax) + ": " + command
}

func checkOffline(dataDir, address string) error {
	switch {
	case dataDir == "":
		return caller.Usagef("--data-dir is missing; write --data-dir FOLDER")
	case address != "" && client.CheckAddress(address) != nil:
		return caller.Usagef("--raft-address: %q is not an address; write HOST:PORT, such as 10.0.0.1:5070", address)
	}
	return nil
}

func recoverCommand(who *caller.Caller) *cobra.Command {
	var dataDir, address, confirm string
	command := &cobra.Command{
		Use:   "recover",
		Short: "Continue with one master when most of the others are lost for ever",
		Long: "Continue with one master when most of the others are lost for ever. Its data folder becomes that of a quorum of one, in\n" +
			"a higher epoch. The master must not be running. Choose the survivor with the highest term and index. What only the lost\n" +
			"masters had is lost, but not tasks: agents report what they run. Then start the master, and let others join with empty\n" +
			"folders.\n\n" +
			"Without --confirm the command only says what it has found.",
		Example: "  tender raft recover --data-dir /var/lib/tender/m1\n" +
			"  tender raft recover --data-dir /var/lib/tender/m1 --confirm cluster-0123456789ab",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&dataDir, "data-dir", "", "folder of the survivor (required)")
	flags.StringVar(&address, "raft-address", "", "HOST:PORT at which other masters will reach it (default: the one that it had)")
	flags.StringVar(&confirm, "confirm", "", "the cluster's ID; with it you confirm that the others are lost and nobody will start them again")
	command.RunE = func(*cobra.Command, []string) error {
		if err := checkOffline(dataDir, address); err != nil {
			return err
		}
		found, err := master.Survey(dataDir)
		switch {
		case err != nil:
			return err
		case confirm == "":
			return tellSurvivor(who, dataDir, found)
		case confirm != string(found.Cluster):
			return caller.Usagef("the folder is of %s, not of %s; nothing was changed", found.Cluster, confirm)
		}
		if found, err = master.Recover(dataDir, address); err != nil {
			return err
		}
		_, err = fmt.Fprintf(who.Stdout, "master %s is a quorum of one now, in epoch %d\nstart it with: tender master --data-dir %s\n",
			found.Self.ID, found.Epoch, dataDir)
		return err
	}
	return command
}

func tellSurvivor(who *caller.Caller, dataDir string, found master.Survivor) error {
	var members []string
	for _, peer := range found.Members {
		members = append(members, string(peer.ID)+" at "+peer.Addr)
	}
	err := show.Fields(who.Stdout, [][2]string{
		{"Master", string(found.Self.ID)},
		{"Cluster", string(found.Cluster)},
		{"Term", api.Term{Epoch: found.Epoch, Number: found.Term}.String()},
		{"Index", strconv.FormatUint(found.Last, 10)},
		{"Quorum", strings.Join(members, ", ")},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(who.Stdout, "\nNothing was changed. If the majority of this quorum is lost for ever and no other survivor has a higher term and index:\n"+
		"  tender raft recover --data-dir %s --confirm %s\n", dataDir, found.Cluster)
	return err
}

func resetTermCommand(who *caller.Caller) *cobra.Command {
	var dataDir, confirm string
	command := &cobra.Command{
		Use:   "reset-term",
		Short: "Make a stopped agent forget the newest term that it has obeyed",
		Long: "Make an agent, which must not be running, forget the newest term that it has obeyed. An agent obeys no leader of an\n" +
			"older term. If a wrong master has told it a term that the true leaders will never reach, it obeys nobody any more.\n" +
			"Afterwards it obeys the first leader of its cluster that answers, so make sure that --master names the true ones. Its\n" +
			"tasks are not touched.\n\n" +
			"Without --confirm the command only says what it has found.",
		Example: "  tender agent reset-term --data-dir /var/lib/tender/agent\n" +
			"  tender agent reset-term --data-dir /var/lib/tender/agent --confirm agent-7",
		Args: caller.Exactly(),
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&dataDir, "data-dir", "", "folder of the agent (required)")
	flags.StringVar(&confirm, "confirm", "", "the agent's ID; with it you confirm that no leader of an older term is alive")
	command.RunE = func(*cobra.Command, []string) error {
		if dataDir == "" {
			return caller.Usagef("name the folder of the agent: --data-dir FOLDER")
		}
		found, err := agent.Inspect(dataDir)
		switch {
		case err != nil:
			return err
		case confirm == "":
			return tellStanding(who, dataDir, found)
		case confirm != string(found.Agent):
			return caller.Usagef("the folder is of %s, not of %s; nothing was changed", found.Agent, confirm)
		}
		if found, err = agent.ResetTerm(dataDir); err != nil {
			return err
		}
		_, err = fmt.Fprintf(who.Stdout, "agent %s has forgotten term %s; it obeys the first leader of %s that answers\n", found.Agent, found.Term, found.Cluster)
		return err
	}
	return command
}

func tellStanding(who *caller.Caller, dataDir string, found agent.Standing) error {
	err := show.Fields(who.Stdout, [][2]string{
		{"Agent", string(found.Agent)},
		{"Cluster", string(found.Cluster)},
		{"Term", found.Term.String()},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(who.Stdout, "\nNothing was changed, and an agent that its leader has registered needs no change. Only if its log says of every\n"+
		"true leader that its term is over, as no one of them will reach this one:\n"+
		"  tender agent reset-term --data-dir %s --confirm %s\n", dataDir, found.Agent)
	return err
}
