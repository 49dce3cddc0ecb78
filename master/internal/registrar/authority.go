package registrar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/rights"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// metMax bounds the identities whose certificates are remembered, and those in an answer.
const metMax = 20_000

// Follow takes the authority that the registry knows; true if it is another one than before.
func (r *Registrar) Follow() (changed bool, err error) {
	present := r.present.Load()
	if present == nil {
		return false, nil
	}
	var known registry.Authority
	r.config.Read(func(s *registry.State) { known = s.Authority })
	if known.Digest == "" || known.Digest == present.Digest().String() {
		return false, nil
	}
	next, err := r.config.Key.UnsealAuthority(known.Sealed)
	if err != nil {
		return false, err
	}
	return r.present.CompareAndSwap(present, next.Living(r.config.Lives)), nil
}

// Key is the cluster's with the present authority, for who has no registry yet.
func (r *Registrar) Key() (trust.Key, error) {
	present := r.present.Load()
	if known, err := r.config.Key.Authority(); err != nil || known.Digest() == present.Digest() {
		return r.config.Key, err
	}
	return r.config.Key.WithAuthority(present)
}

// RotateAuthority lets another authority follow. Who brings one of his own has its key, by which he could be anybody: that
// takes an admin of everything.
func (r *Registrar) RotateAuthority(ctx context.Context, request *apiv1.RotateAuthorityRequest, by rights.Scope) (*apiv1.AuthorityView, error) {
	const op = "authority.rotate"
	if err := r.check(op); err != nil {
		return nil, err
	}
	if len(request.GetCertificate()) > 0 && !by.MayGive(rights.Grant{Verb: rights.Admin}) {
		return nil, rights.RefuseVerb("bring an authority of one's own", rights.Admin, by.Who, rights.Object{})
	}
	if _, err := r.Follow(); err != nil {
		return nil, err
	}
	overlap, overlapMin := r.config.Lives.Of(trust.Agent), r.config.Lives.OverlapMin()
	if asked := request.GetOverlap(); asked != nil {
		overlap = asked.AsDuration()
		if asked.CheckValid() != nil || overlap < overlapMin {
			return nil, api.E(op, api.Invalid, "overlap", fmt.Errorf("%v is too short for everybody to get another certificate; at least %v is right", overlap, overlapMin))
		}
	}
	now := time.Now()
	fresh, err := r.newAuthority(request, now)
	if err != nil {
		return nil, err
	}
	ends := now.Add(overlap).UTC().Truncate(time.Second)
	next, err := fresh.After(r.present.Load(), now, ends)
	if err != nil {
		return nil, err
	}
	sealed, err := r.config.Key.SealAuthority(next)
	if err != nil {
		return nil, err
	}
	change := registry.RotateAuthority{Digest: next.Digest().String(), Sealed: sealed, FormerEnds: ends}
	if err := r.config.Commit(ctx, op, change); err != nil {
		return nil, err
	}
	return r.GetAuthority(ctx, nil)
}

func (r *Registrar) newAuthority(request *apiv1.RotateAuthorityRequest, now time.Time) (*trust.Authority, error) {
	cluster := r.config.Key.Cluster()
	switch certificate, key := request.GetCertificate(), request.GetPrivateKey(); {
	case len(certificate) == 0 && len(key) == 0:
		return trust.NewAuthority(cluster)
	case len(certificate) == 0 || len(key) == 0:
		return nil, api.E("authority.rotate", api.Invalid, "", errors.New("an authority of one's own is a certificate and its private key; one of them is missing"))
	default:
		return trust.OwnAuthority(cluster, certificate, key, now)
	}
}

// GetAuthority shows the present authority, what those have shown who came here, and who of the masters and agents has not
// come: whether an authority may end depends on them too.
func (r *Registrar) GetAuthority(context.Context, *apiv1.GetAuthorityRequest) (*apiv1.AuthorityView, error) {
	if err := r.check("authority.get"); err != nil {
		return nil, err
	}
	if _, err := r.Follow(); err != nil {
		return nil, err
	}
	present, now := r.present.Load(), time.Now()
	var known registry.Authority
	members := r.masters(present.Cluster())
	r.config.Read(func(s *registry.State) {
		known = s.Authority
		members = append(members, agentsOf(s, present.Cluster())...)
	})
	view := &apiv1.AuthorityView{
		Cluster: present.Cluster(), Digest: present.Digest().String(), Began: wire.TimeToProto(known.Began), Items: r.met.show(now, members),
	}
	anchors := present.Anchors()
	if anchors.Root.NotAfter.Before(now.AddDate(100, 0, 0)) {
		view.Ends = timestamppb.New(anchors.Root.NotAfter)
	}
	if anchors.FormerEnds().After(now) {
		view.FormerDigest, view.FormerEnds = trust.DigestOf(anchors.Former).String(), timestamppb.New(anchors.FormerEnds())
	}
	return view, nil
}

// masters are those of the quorum.
func (r *Registrar) masters(cluster string) (members []trust.Identity) {
	for id := range r.config.Peers() { // order: sorted by met.show
		members = append(members, trust.Identity{Cluster: cluster, Kind: trust.Master, Name: string(id)})
	}
	return members
}

// agentsOf are the agents that may come, whether they are there or away.
func agentsOf(s *registry.State, cluster string) (members []trust.Identity) {
	for _, agent := range s.Agents { // order: sorted by met.show
		if agent.Gone.IsZero() {
			members = append(members, trust.Identity{Cluster: cluster, Kind: trust.Agent, Name: string(agent.Nonce)})
		}
	}
	return members
}

// Met notes what somebody has shown who came to this master.
func (r *Registrar) Met(shown trust.Shown) { r.met.note(shown, time.Now(), time.Now()) }

// met remembers who came with which certificate.
type met struct {
	mu    sync.Mutex
	shown map[trust.Identity]seen // guarded by mu
}

type seen struct {
	trust.Shown
	at time.Time // zero: it was signed here, and nobody has come with it yet
}

// note keeps the latest certificate of somebody. Who renews its own on a stream goes on by that stream, so what is signed counts
// as what it has, but not as shown: the answer may have been lost.
func (m *met) note(shown trust.Shown, now, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shown == nil {
		m.shown = map[trust.Identity]seen{}
	}
	if _, known := m.shown[shown.Identity]; !known && len(m.shown) >= metMax {
		m.forgetEnded(now)
		if len(m.shown) >= metMax {
			return
		}
	}
	m.shown[shown.Identity] = seen{shown, at}
}

func (m *met) forgetEnded(now time.Time) {
	maps.DeleteFunc(m.shown, func(_ trust.Identity, s seen) bool { return !now.Before(s.Ends) })
}

// show returns what was shown by each, and as many of the members who have shown nothing here as fit an answer: their names.
func (m *met) show(now time.Time, members []trust.Identity) []*apiv1.CertificateView {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetEnded(now)
	views := make([]*apiv1.CertificateView, 0, len(m.shown))
	for identity, s := range m.shown { // order: sorted below
		view := &apiv1.CertificateView{Identity: identity.String(), Authority: s.Authority.String(), Ends: timestamppb.New(s.Ends)}
		if !s.at.IsZero() {
			view.Shown = timestamppb.New(s.at)
		}
		views = append(views, view)
	}
	for _, member := range members {
		if _, known := m.shown[member]; !known && len(views) < metMax {
			views = append(views, &apiv1.CertificateView{Identity: member.String()})
		}
	}
	slices.SortFunc(views, func(a, b *apiv1.CertificateView) int { return strings.Compare(a.Identity, b.Identity) })
	return views
}
