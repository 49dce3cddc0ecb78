package agent

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/tenderhq/tender/agent/checkpoint"
	"github.com/tenderhq/tender/agent/core"
	"github.com/tenderhq/tender/api"
)

// Standing is what the data folder of an agent that does not run says about that agent.
type Standing struct {
	Cluster api.ClusterID
	Agent   api.AgentID
	// Term is the newest term that it has obeyed; it obeys no older one (R1).
	Term api.Term
}

// Inspect reads the standing of an agent that does not run.
func Inspect(dataDir string) (Standing, error) {
	return offline(dataDir, func(checkpoint.Store, core.Identity) error { return nil })
}

// ResetTerm makes an agent that does not run forget the newest term that it has obeyed. It then obeys the first leader
// of its cluster that answers, whatever that one's term. It is for an agent that a wrong master has told a term that no
// true leader will reach. Tasks are not touched.
func ResetTerm(dataDir string) (Standing, error) {
	return offline(dataDir, func(store checkpoint.Store, who core.Identity) error {
		who.Term = api.Term{}
		_, err := store.Append([]core.Record{who})
		return err
	})
}

// offline holds the folder's lock while it does something with its checkpoint.
func offline(dataDir string, do func(checkpoint.Store, core.Identity) error) (standing Standing, err error) {
	const op = "agent.offline"
	if _, err := os.Stat(filepath.Join(dataDir, "identity")); err != nil {
		return standing, api.E(op, api.NotFound, dataDir, errors.New("this is no agent's data folder: it holds no file identity"))
	}
	unlock, err := newDataFolder(dataDir, zerolog.Nop()).lock()
	if err != nil {
		return standing, err
	}
	defer unlock()
	boot, err := bootID()
	if err != nil {
		return standing, api.E(op, api.Internal, dataDir, err)
	}
	store := checkpoint.NewDisk(checkpoint.Config{Folder: dataDir, BootID: boot})
	records, err := store.Load()
	if err != nil {
		return standing, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	who, _ := records[0].(core.Identity) // it is always the first record
	standing = Standing{Cluster: who.Cluster, Agent: who.Agent, Term: who.Term}
	return standing, do(store, who)
}
