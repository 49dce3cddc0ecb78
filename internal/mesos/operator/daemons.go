package operator

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/logging"
	"github.com/tenderhq/tender/internal/mesos/codec"
	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
	agentv1 "github.com/tenderhq/tender/internal/mesos/v1/agent"
	"github.com/tenderhq/tender/internal/sandbox"
)

// What tools ask of a daemon is asked of the leader, or of the agent of the host that the request names.

// fromLeader asks the leader for a path of its HTTP port.
func (r request) fromLeader(path string) (client.Answer, error) {
	ctx := r.r.Context()
	masters, err := r.cluster.Operator().ListMasters(ctx, &apiv1.ListRequest{})
	if err != nil {
		return client.Answer{}, err
	}
	at := slices.IndexFunc(masters.GetItems(), func(m *apiv1.MasterView) bool { return m.GetState() == "leader" })
	if at < 0 {
		return client.Answer{}, codec.Refuse(http.StatusServiceUnavailable, "No leader is known")
	}
	return r.cluster.GetFromMaster(ctx, masters.GetItems()[at].GetHttpAddress(), path)
}

// fromAgent asks the agent in the same way. What only an operator of the agent may have needs another ticket.
func (r request) fromAgent(path string, operate bool) (client.Answer, error) {
	a, err := r.agentHere()
	if err != nil {
		return client.Answer{}, err
	}
	ticket, err := r.agentTicket(a, operate)
	if err != nil {
		return client.Answer{}, err
	}
	return r.cluster.GetFromAgent(r.r.Context(), a.GetAddress(), path, ticket)
}

func (r request) agentTicket(a *apiv1.AgentView, operate bool) (ticket string, err error) {
	if operate {
		return r.cluster.ExecTicket(r.r.Context(), api.TaskRef{}, api.AgentID(a.GetId()))
	}
	ticket, _, err = r.cluster.ReadTicket(r.r.Context(), api.TaskRef{}, api.AgentID(a.GetId()))
	return ticket, err
}

// agentHere returns the agent of the host that the request names.
func (r request) agentHere() (*apiv1.AgentView, error) {
	s, err := readState(r.r.Context(), r.cluster, agents)
	if err != nil {
		return nil, err
	}
	here := s.agentsAt(r.r.Host)
	if len(here) == 0 {
		return nil, codec.Refuse(http.StatusServiceUnavailable, "The cluster has no agent")
	}
	return here[0], nil
}

// flagsIn reads the flags of a daemon from what it answered.
func flagsIn(answer client.Answer, err error) (map[string]string, error) {
	if err != nil {
		return nil, err
	}
	var said struct{ Flags map[string]string }
	return said.Flags, json.Unmarshal(answer.Body, &said)
}

func (r request) leaderFlags() (map[string]string, error) { return flagsIn(r.fromLeader("/v1/flags")) }

func (r request) agentFlags() (map[string]string, error) {
	return flagsIn(r.fromAgent("/v1/flags", false))
}

func serveFlags(r request, read func() (map[string]string, error)) error {
	flags, err := read()
	if err != nil {
		return err
	}
	return writeJSON(r.w, object{"flags": flags})
}

func flagsOf(flags map[string]string) (list []*mesosv1.Flag) {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		list = append(list, &mesosv1.Flag{Name: text(name), Value: text(flags[name])})
	}
	return list
}

// The names of the logs of daemons, as Mesos has them.
const (
	masterLog = "/master/log"
	agentLog  = "/slave/log"
)

// log reads what a daemon keeps of its log in memory: the newest lines, and how many bytes there were before them. It
// returns false if the name is that of no log.
func (r request) log(name string) (kept []byte, before int64, is bool, err error) {
	var answer client.Answer
	switch "/" + strings.Trim(name, "/") {
	case masterLog:
		answer, err = r.fromLeader("/v1/log")
	case agentLog:
		answer, err = r.fromAgent("/v1/log", true)
	default:
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, true, err
	}
	before, err = strconv.ParseInt(answer.Header.Get(logging.BeforeHeader), 10, 64)
	return answer.Body, before, true, err
}

// listLog lists a log as the one file that it is.
func (o *Operator) listLog(name string, size int64) []*mesosv1.FileInfo {
	return []*mesosv1.FileInfo{fileInfo(name, sandbox.Item{Bytes: size, Modified: o.now()})}
}

// readLog reads a part of a log.
func readLog(name string, kept []byte, before, offset int64, most int64) ([]byte, int64, error) {
	size := before + int64(len(kept))
	switch {
	case offset < 0 || offset >= size || most == 0:
		return []byte{}, size, nil
	case offset < before:
		return nil, 0, codec.Refuse(http.StatusBadRequest, "Of %s the process keeps only what is behind offset %d; it is whole wherever it is written to", name, before)
	}
	kept = kept[offset-before:]
	return kept[:min(most, int64(len(kept)))], size, nil
}

// pruneImages removes the images that no task uses from the agent.
func (r request) pruneImages(call *agentv1.Call_PruneImages) error {
	if len(call.GetExcludedImages()) > 0 {
		return codec.Refuse(http.StatusNotImplemented, "excluded_images has no equivalent in Tender: images of tasks stay, all others go")
	}
	a, err := r.agentHere()
	if err != nil {
		return err
	}
	ticket, err := r.agentTicket(a, true)
	if err != nil {
		return err
	}
	_, err = r.cluster.PostToAgent(r.r.Context(), a.GetAddress(), "/v1/images/prune", ticket)
	return err
}

// operationsOf reads the operations of the named agents, or of all if none is named.
func (r request) operationsOf(ctx context.Context, of []*apiv1.AgentView) (list []*mesosv1.Operation, err error) {
	all, _, err := client.All(ctx, r.cluster.Operator().ListOperations, 0, &apiv1.ListRequest{All: true})
	for _, o := range all {
		if of == nil || slices.ContainsFunc(of, func(a *apiv1.AgentView) bool { return a.GetId() == o.GetAgentId() }) {
			list = append(list, operationOf(o))
		}
	}
	return list, err
}
