package registrycodec

import (
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/logpb"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// This file encodes who may do what, and the key of receipts.

func encodeTrustChange(m *logpb.Command, change registry.Change) bool {
	switch c := change.(type) {
	case registry.Grant:
		m.Change = &logpb.Command_Grant{Grant: &logpb.Grant{Principal: c.Principal, Grant: grantToLog(c.Grant)}}
	case registry.TakeGrant:
		m.Change = &logpb.Command_TakeGrant{TakeGrant: &logpb.TakeGrant{Principal: c.Principal, Grant: grantToLog(c.Grant)}}
	case registry.RevokePrincipal:
		m.Change = &logpb.Command_RevokePrincipal{RevokePrincipal: &logpb.RevokePrincipal{Principal: c.Principal, Why: c.Why, Saw: wire.Each(c.SawGrants, grantToLog)}}
	case registry.BeginReceipts:
		m.Change = &logpb.Command_BeginReceipts{BeginReceipts: &logpb.BeginReceipts{Mark: c.Mark, Since: wire.TermToProto(c.Since)}}
	case registry.SetSecret:
		m.Change = &logpb.Command_SetSecret{SetSecret: &logpb.SetSecret{Name: string(c.ID), Sealed: c.Sealed, By: c.By}}
	case registry.RemoveSecret:
		m.Change = &logpb.Command_RemoveSecret{RemoveSecret: &logpb.RemoveSecret{Name: string(c.ID), Saw: wire.TimeToProto(c.Saw)}}
	default:
		return false
	}
	return true
}

func decodeTrustChange(m *logpb.Command) registry.Change {
	switch c := m.Change.(type) {
	case *logpb.Command_Grant:
		return registry.Grant{Principal: c.Grant.Principal, Grant: grantFromLog(c.Grant.Grant)}
	case *logpb.Command_TakeGrant:
		return registry.TakeGrant{Principal: c.TakeGrant.Principal, Grant: grantFromLog(c.TakeGrant.Grant)}
	case *logpb.Command_RevokePrincipal:
		return registry.RevokePrincipal{
			Principal: c.RevokePrincipal.Principal, Why: c.RevokePrincipal.Why, SawGrants: wire.Each(c.RevokePrincipal.Saw, grantFromLog),
		}
	case *logpb.Command_BeginReceipts:
		return registry.BeginReceipts{Mark: c.BeginReceipts.Mark, Since: wire.TermFromProto(c.BeginReceipts.Since)}
	case *logpb.Command_SetSecret:
		return registry.SetSecret{ID: api.SecretID(c.SetSecret.Name), Sealed: c.SetSecret.Sealed, By: c.SetSecret.By}
	case *logpb.Command_RemoveSecret:
		return registry.RemoveSecret{ID: api.SecretID(c.RemoveSecret.Name), Saw: wire.TimeOf(c.RemoveSecret.Saw)}
	}
	return nil
}

func grantToLog(g rights.Grant) *logpb.PrincipalGrant {
	return &logpb.PrincipalGrant{Verb: string(g.Verb), Role: string(g.Role), Framework: g.Framework, Agent: g.Agent, User: g.User}
}

func grantFromLog(m *logpb.PrincipalGrant) rights.Grant {
	return rights.Grant{
		Verb: rights.Verb(m.GetVerb()), Role: api.Role(m.GetRole()), Framework: m.GetFramework(), Agent: m.GetAgent(), User: m.GetUser(),
	}
}

func principalToLog(name string, p registry.Principal) *logpb.PrincipalItem {
	return &logpb.PrincipalItem{
		Name: name, Grants: wire.Each(p.Grants, grantToLog), Created: wire.TimeToProto(p.Created), Revoked: wire.TimeToProto(p.Revoked), Why: p.Why,
	}
}

func principalFromLog(m *logpb.PrincipalItem) registry.Principal {
	return registry.Principal{
		Grants: wire.Each(m.GetGrants(), grantFromLog), Created: wire.TimeOf(m.GetCreated()), Revoked: wire.TimeOf(m.GetRevoked()), Why: m.GetWhy(),
	}
}

func receiptsToLog(r registry.Receipts) *logpb.Receipts {
	if len(r.Mark) == 0 {
		return nil
	}
	return &logpb.Receipts{Mark: r.Mark, Since: wire.TermToProto(r.Since), Began: wire.TimeToProto(r.Began)}
}

func receiptsFromLog(m *logpb.Receipts) registry.Receipts {
	if m == nil {
		return registry.Receipts{}
	}
	return registry.Receipts{Mark: m.GetMark(), Since: wire.TermFromProto(m.GetSince()), Began: wire.TimeOf(m.GetBegan())}
}

func authorityToLog(a registry.Authority) *logpb.Authority {
	if a.Digest == "" {
		return nil
	}
	return &logpb.Authority{Digest: a.Digest, Sealed: a.Sealed, Began: wire.TimeToProto(a.Began), FormerEnds: wire.TimeToProto(a.FormerEnds)}
}

func authorityFromLog(m *logpb.Authority) registry.Authority {
	if m == nil {
		return registry.Authority{}
	}
	return registry.Authority{
		Digest: m.GetDigest(), Sealed: m.GetSealed(), Began: wire.TimeOf(m.GetBegan()), FormerEnds: wire.TimeOf(m.GetFormerEnds()),
	}
}

func secretToLog(id api.SecretID, s registry.Secret) *logpb.SecretItem {
	return &logpb.SecretItem{Name: string(id), Sealed: s.Sealed, By: s.By, Set: wire.TimeToProto(s.Set)}
}

func secretFromLog(m *logpb.SecretItem) registry.Secret {
	return registry.Secret{Sealed: m.GetSealed(), By: m.GetBy(), Set: wire.TimeOf(m.GetSet())}
}
