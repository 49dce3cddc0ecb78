package api

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Identifiers have types of their own, so that one is never taken for another. Masters make ClusterID, AgentID,
// FrameworkID and OfferID; all but the first are counted. TaskID, ExecutorID and OperationID are chosen by the
// framework.
type (
	// ClusterID names one cluster for ever; minted once at bootstrap.
	ClusterID string
	// MasterID names a master inside its cluster, the operator's choice.
	MasterID string
	// AgentID names an agent, "agent-12"; minted when the agent is admitted.
	AgentID string
	// FrameworkID names a framework, "framework-3"; minted at the first subscription.
	FrameworkID string
	// ExecutorID names an executor of a framework on an agent.
	ExecutorID string
	// TaskID names a task within its framework and is never used twice.
	TaskID string
	// OfferID names an offer, "offer-7-42": number 42 of term 7. Inverse offers
	// are "inverse-7-42".
	OfferID string
	// OperationID names an operation whose outcome a framework wants to hear of.
	OperationID string
	// TaskGroupID names tasks that were launched as one group, "group-7-42": launch 42 of term 7 was that of
	// its first task.
	TaskGroupID string
	// VolumeID names a persistent volume on an agent.
	VolumeID string
	// Nonce is a random word that identifies who sends a first message, so that a repetition of that message is
	// recognised (R7). It also tells the instances of a scheduler apart.
	Nonce string
)

// TaskRef addresses a task in the whole cluster, written FRAMEWORK/TASK.
type TaskRef struct {
	Framework FrameworkID
	Task      TaskID
}

func (r TaskRef) String() string { return string(r.Framework) + "/" + string(r.Task) }

// Compare orders tasks by framework, then by task.
func (r TaskRef) Compare(other TaskRef) int {
	return cmp.Or(cmp.Compare(r.Framework, other.Framework), cmp.Compare(r.Task, other.Task))
}

// ExecutorRef addresses an executor on an agent, written FRAMEWORK/EXECUTOR.
type ExecutorRef struct {
	Framework FrameworkID
	Executor  ExecutorID
}

func (r ExecutorRef) String() string { return string(r.Framework) + "/" + string(r.Executor) }

// CheckID reports why id can't be an identifier, or nil. The rule holds for every
// kind: 1 to 255 bytes, not "." or "..", without "/", "\", spaces and control
// characters, so that an identifier is always good as a file name and a word.
func CheckID(noun, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty", noun)
	case len(id) > IDBytesMax:
		return fmt.Errorf("%s has %d bytes, at most %d are allowed", noun, len(id), IDBytesMax)
	case id == "." || id == "..":
		return fmt.Errorf("%s %q is a folder's name", noun, id)
	}
	for i := 0; i < len(id); i++ {
		if c := id[i]; c <= ' ' || c >= 0x7f || c == '/' || c == '\\' {
			return checkLetters(noun, id)
		}
	}
	return nil
}

// checkLetters checks the letters of an identifier in which CheckID has seen a byte that may be wrong.
func checkLetters(noun, id string) error {
	for _, r := range id {
		if r == '/' || r == '\\' || r == unicode.ReplacementChar || unicode.IsSpace(r) || unicode.IsControl(r) {
			return fmt.Errorf("%s %q holds %q; letters, digits, '-', '_' and '.' are safe", noun, id, r)
		}
	}
	return nil
}

// Term numbers the leaderships. Every message of a master carries its term, and nobody obeys a message of an older term
// (R1). Epoch grows when a snapshot is restored or a lost majority is recovered. Number grows with each election.
type Term struct {
	Epoch  uint64
	Number uint64
}

// Compare returns -1, 0 or +1 as t is older than, the same as or newer than u.
func (t Term) Compare(u Term) int {
	switch {
	case t == u:
		return 0
	case t.Epoch < u.Epoch, t.Epoch == u.Epoch && t.Number < u.Number:
		return -1
	}
	return +1
}

// Before reports whether t is older than u.
func (t Term) Before(u Term) bool { return t.Compare(u) < 0 }

// String is "7", or "7e2" in a later epoch than the first.
func (t Term) String() string {
	number := strconv.FormatUint(t.Number, 10)
	if t.Epoch == 0 {
		return number
	}
	return number + "e" + strconv.FormatUint(t.Epoch, 10)
}

// LaunchID names one launch of a task: its number among all launches of a term. The ID of a task that was DROPPED may be
// launched again, so it does not tell two launches apart, and neither do clocks. The zero value names none.
type LaunchID struct {
	Term   Term
	Number uint64
}

// Compare returns -1, 0 or +1 as l was made before, is, or was made after m.
func (l LaunchID) Compare(m LaunchID) int {
	return cmp.Or(l.Term.Compare(m.Term), cmp.Compare(l.Number, m.Number))
}

// MintOffer names offer number n of the term.
func (t Term) MintOffer(n uint64) OfferID {
	return OfferID("offer-" + t.String() + "-" + strconv.FormatUint(n, 10))
}

// MintInverse names inverse offer number n of the term.
func (t Term) MintInverse(n uint64) OfferID {
	return OfferID("inverse-" + t.String() + "-" + strconv.FormatUint(n, 10))
}

// MintGroup names the group of tasks whose first launch has number n of the term.
func (t Term) MintGroup(n uint64) TaskGroupID {
	return TaskGroupID("group-" + t.String() + "-" + strconv.FormatUint(n, 10))
}

// Role is a node in the tree of roles, "eng/web". A framework subscribes to one
// or more. The root is no role; the default role is "default".
type Role string

// DefaultRole is where a framework that names no role subscribes.
const DefaultRole Role = "default"

// Parent returns the role above, "" for a top-level role.
func (r Role) Parent() Role {
	if i := strings.LastIndexByte(string(r), '/'); i >= 0 {
		return r[:i]
	}
	return ""
}

// Within reports whether r is above or lies in the subtree of above.
func (r Role) Within(above Role) bool {
	return r == above || above == "" || strings.HasPrefix(string(r), string(above)+"/")
}

// Check reports why r can't be a role, or nil: words joined by "/", each an
// identifier that does not start with "-", is not "*" and can stand in the notation
// of [ParseResources].
func (r Role) Check() error {
	if len(r) > IDBytesMax {
		return fmt.Errorf("role has %d bytes, at most %d are allowed", len(r), IDBytesMax)
	}
	words := strings.Split(string(r), "/")
	if len(words) > RoleDepthMax {
		return fmt.Errorf("role %q is %d levels deep, at most %d are allowed", r, len(words), RoleDepthMax)
	}
	for _, word := range words {
		if err := CheckID("a part", word); err != nil {
			return fmt.Errorf("role %q: %w", r, err)
		}
		if word == "*" || strings.HasPrefix(word, "-") {
			return fmt.Errorf("role %q: a part may not be \"*\" or start with \"-\"", r)
		}
		if strings.ContainsAny(word, notation) {
			return fmt.Errorf("role %q: a part may not hold brackets, ':', ';', ',' or '='", r)
		}
	}
	if r == "dynamic" || r == "revocable" {
		return fmt.Errorf("role %q has another meaning in the notation of resources; choose another name", r)
	}
	return nil
}

// notation is what means something where resources are written down, so that no name
// in it may hold it.
const notation = "()[]{}:;,="
