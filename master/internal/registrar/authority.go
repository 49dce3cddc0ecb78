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
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/rights"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/master/registry"
)

// metMax bounds the identities whose certificates are remembered, and the items of an answer.
const metMax = 20_000

// Follow takes over the authority that the registry names; it returns true if that is a new one.
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

// Key returns the cluster's key with the present authority, for a master that has no registry yet.
func (r *Registrar) Key() (trust.Key, error) {
	present := r.present.Load()
	if known, err := r.config.Key.Authority(); err != nil || known.Digest() == present.Digest() {
		return r.config.Key, err
	}
	return r.config.Key.WithAuthority(present)
}

// RotateAuthority makes a new authority take over. A caller who provides the authority has its private key, with which
// he could be anybody. So that takes an unlimited admin.
func (r *Registrar) RotateAuthority(ctx context.Context, request *apiv1.RotateAuthorityRequest, by rights.Scope) (*apiv1.AuthorityView, error) {
	const op = "authority.rotate"
	if err := r.check(op); err != nil {
		return nil, err
	}
	if len(request.GetCertificate()) > 0 && !by.MayGive(rights.Grant{Verb: rights.Admin}) {
		return nil, rights.RefuseVerb("bring an authority of one's own", rights.Admin, by.Who, rights.Object{})
	}
	saw := "" // before it is followed, so that the change is refused if another one comes in between
	r.config.Read(func(s *registry.State) { saw = s.Authority.Digest })
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
	change := registry.RotateAuthority{Saw: saw, Digest: next.Digest().String(), Sealed: sealed, FormerEnds: ends}
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

// GetAuthority shows the present authority, the certificates of those who came to this master, and the masters and
// agents that have not come. Whether the former authority may end depends on the latter too.
func (r *Registrar) GetAuthority(context.Context, *apiv1.GetAuthorityRequest) (*apiv1.AuthorityView, error) {
	if err := r.ready("authority.get"); err != nil {
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

// masters returns the identities of the quorum's masters.
func (r *Registrar) masters(cluster string) (members []trust.Identity) {
	for id := range r.config.Peers() { // order: sorted by met.show
		members = append(members, trust.Identity{Cluster: cluster, Kind: trust.Master, Name: string(id)})
	}
	return members
}

// agentsOf returns the identities of the agents that are not gone, whether they are connected or not.
func agentsOf(s *registry.State, cluster string) (members []trust.Identity) {
	for _, agent := range s.Agents { // order: sorted by met.show
		if agent.Gone.IsZero() {
			members = append(members, trust.Identity{Cluster: cluster, Kind: trust.Agent, Name: string(agent.Nonce)})
		}
	}
	return members
}

// Met records the certificate with which somebody came to this master.
func (r *Registrar) Met(shown trust.Shown) { r.met.note(shown, time.Now(), time.Now()) }

// met remembers who came with which certificate.
type met struct {
	mu    sync.Mutex
	shown map[trust.Identity]seen // guarded by mu
}

type seen struct {
	trust.Shown
	at time.Time // when it was shown; zero: it was signed here and not shown yet
}

// note remembers the latest certificate of a peer. A peer that renews its certificate continues on its open stream. So
// what was signed for it counts as its certificate but not as shown, because the answer may have been lost.
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

// show returns what each peer has shown, and the names of the members that have shown nothing here, as many as fit in
// an answer.
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
