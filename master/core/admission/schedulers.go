// Package admission checks what schedulers and agents say of themselves when they come, before the registry is asked.
// It also decides in which order sessions ask the registry, and who stands by for a name. It needs to know only the
// registry and which leader judges.
package admission

import (
	"errors"
	"fmt"
	"slices"
	"unicode"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/master/registry"
)

// Judge checks those who come, on behalf of the leader.
type Judge struct {
	Registry *registry.State
	Term     api.Term
	Version  string // of this master; a peer whose version is too far from it is refused (R24)
}

// peer holds the words with which a refusal describes the peer that is refused.
type peer struct {
	name  string
	wrong string // the likely mistake when it belongs to another cluster
	cure  string // what people should do when a wrong master has told it a wrong term
}

// seen checks the cluster that a peer says it belongs to ("" when it belongs to none yet), and the highest term that it
// has seen.
func (j Judge) seen(who peer, cluster api.ClusterID, term api.Term) (api.Kind, error) {
	switch {
	case cluster != "" && cluster != j.Registry.Cluster:
		return api.Denied, protocol.BelongsElsewhere(j.Registry.Cluster, who.name, cluster, who.wrong)
	case protocol.FarAhead(j.Term, term):
		return api.Unavailable, fmt.Errorf("the %s has seen term %s, impossibly far ahead of %s, in which this master leads: a wrong master has told it; %s",
			who.name, term, j.Term, who.cure)
	case j.Term.Before(term):
		return api.Unavailable, fmt.Errorf("this master led in term %s, the %s has seen %s: a newer leader is there", j.Term, who.name, term)
	}
	return 0, nil
}

// Scheduler checks what a scheduler says about itself, and fills in the default for roles that it left out. It does not
// check whether the scheduler's constraint compiles.
func (j Judge) Scheduler(subscribe *protocol.Subscribe, by rights.Scope) (api.Kind, error) {
	info := &subscribe.Framework
	if err := protocol.Neighbours(j.Version, subscribe.Version); err != nil {
		return api.Unsupported, fmt.Errorf("the scheduler's SDK: %w", err)
	}
	if len(info.Roles) == 0 {
		info.Roles = []api.Role{api.DefaultRole}
	}
	who := peer{name: "scheduler", wrong: "a wrong master address", cure: "start the scheduler again"}
	if kind, err := j.seen(who, subscribe.Cluster, subscribe.Term); err != nil {
		return kind, err
	}
	switch known := j.Registry.Frameworks[info.ID]; {
	case info.ID != "" && !known.Removed.IsZero():
		return api.Removed, fmt.Errorf("the framework was removed (%s); subscribe without an ID to begin a new one", known.Why)
	case info.FailoverTimeout < 0:
		return api.Invalid, fmt.Errorf("failover timeout %v is negative", info.FailoverTimeout)
	}
	if err := info.CheckSize(); err != nil {
		return api.Limit, err
	}
	if err := checkName(info.Name); err != nil {
		return api.Invalid, err
	}
	if err := checkRoles(info.Roles, subscribe.Suppressed); err != nil {
		return api.Invalid, err
	}
	if err := checkRunsIn(*info, by); err != nil {
		return api.Denied, err
	}
	if err := info.MinOffer.Check(); err != nil {
		return api.Invalid, fmt.Errorf("its least offer: %w", err)
	}
	if err := info.MaxOffer.Check(); err != nil {
		return api.Invalid, fmt.Errorf("its largest offer: %w", err)
	}
	return 0, nil
}

// checkRunsIn refuses a framework whose principal has no grant to run frameworks in one of its roles (R6).
func checkRunsIn(info api.Framework, by rights.Scope) error {
	for _, role := range info.Roles {
		if !by.Covers(rights.Object{Framework: info.ID, Name: info.Name, Role: role}) {
			return fmt.Errorf("%s may not run frameworks in role %s; an operator gives the grant: tender grant %s",
				by.Who, role, by.Who+" "+rights.Grant{Verb: rights.Run, Role: role}.String())
		}
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the framework has no name; people and standbys know it by that")
	case len(name) > api.IDBytesMax:
		return fmt.Errorf("the name has %d bytes, at most %d are allowed", len(name), api.IDBytesMax)
	}
	for _, r := range name {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return fmt.Errorf("the name %q holds the character %q", name, r)
		}
	}
	return nil
}

func checkRoles(roles, suppressed []api.Role) error {
	if len(roles) > api.RolesPerFrameworkMax {
		return fmt.Errorf("%d roles, at most %d are allowed", len(roles), api.RolesPerFrameworkMax)
	}
	for i, role := range roles {
		if err := role.Check(); err != nil {
			return err
		}
		if slices.Contains(roles[:i], role) {
			return fmt.Errorf("role %q is named twice", role)
		}
	}
	for _, role := range suppressed {
		if !slices.Contains(roles, role) {
			return fmt.Errorf("role %q is suppressed but not one of the framework's", role)
		}
	}
	return nil
}
