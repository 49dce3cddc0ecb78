package quorum

import (
	"errors"
	"fmt"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// CheckNew says why the master that answers at a new peer's address may not be added. self is what we say about
// ourselves, and format is the registry's format that the quorum writes.
func CheckNew(peer Peer, answer, self About, format uint64) error {
	switch {
	case answer.ID != peer.ID:
		return api.E("", api.Invalid, peer.Addr, fmt.Errorf("master %s listens there", answer.ID))
	case answer.Cluster == self.Cluster && answer.Epoch < self.Epoch && answer.Last > 0:
		return api.E("", api.Invalid, peer.Addr,
			fmt.Errorf("its folder is of epoch %d, before the cluster was recovered or restored; empty it first", answer.Epoch))
	case answer.Cluster != self.Cluster:
		return api.E("", api.Invalid, peer.Addr, fmt.Errorf("it belongs to cluster %q, not to %s", answer.Cluster, self.Cluster))
	case max(answer.Format, 1) < max(format, 1):
		return api.E("", api.Unsupported, peer.ID, fmt.Errorf("it reads the registry's format %d, and the quorum writes format %d; start a newer version of it",
			max(answer.Format, 1), max(format, 1)))
	}
	if err := protocol.Neighbours(self.Version, answer.Version); err != nil {
		return api.E("", api.Unsupported, peer.ID, err)
	}
	return nil
}

// CheckListed says why a peer can't be added to the members. It returns known when an earlier call has added the peer
// as a non-voter and was not completed. incarnation is that of the folder that answers there.
func CheckListed(peer Peer, incarnation string, members []Member) (known bool, err error) {
	for _, m := range members {
		role := "voter"
		if !m.Voter {
			role = "non-voter"
		}
		switch {
		case m.Peer == peer && !m.Voter && m.Incarnation != incarnation:
			return false, api.E("", api.Exists, m.ID, errors.New("it was added with another folder than it has now; run `tender raft remove` for it first"))
		case m.Peer == peer && !m.Voter:
			return true, nil
		case m.ID == peer.ID || m.Addr == peer.Addr:
			return false, api.E("", api.Exists, m.ID, fmt.Errorf("it is a %s at %s already", role, m.Addr))
		}
	}
	return false, nil
}

// CheckRemoval says why a master can't be removed from the quorum. Those that are left must be able to decide: most of
// their voters must answer, or nobody leads once the master is gone, and it can't be taken back. With force that is
// accepted; then costs says so. answers are those of this moment, without our own. (Protocol rule R50.)
func CheckRemoval(op string, id, self api.MasterID, members []Member, answers Answers, force bool) (costs string, err error) {
	var left []Member
	voters := 0
	for _, m := range members {
		if m.Voter {
			voters++
		}
		if m.ID != id {
			left = append(left, m)
		}
	}
	switch {
	case !IsMember(members, id):
		return "", api.E(op, api.NotFound, id, errors.New("no such master is in the quorum"))
	case id == self && voters == 1:
		return "", api.E(op, api.Invalid, id, errors.New("it is the only voter; without it there is no cluster"))
	}
	missing := Missing(left, answers, self)
	switch {
	case missing == "":
		return "", nil
	case !force:
		return "", api.E(op, api.Unavailable, id, fmt.Errorf("without it nobody could lead: %s. Remove the silent ones first if they are lost for ever, "+
			"or bring them back; --force removes it all the same, and the cluster stands still until enough of them answer", missing))
	}
	return "nobody leads until enough of those that are left answer: " + missing, nil
}
