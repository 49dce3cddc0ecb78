package trust

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Kind is the kind of an identity in the cluster.
type Kind uint8

// The kinds of identities.
const (
	// Nobody is a peer that has shown no certificate of this cluster.
	Nobody Kind = iota
	// Master is a member of the quorum, or a machine that joins it; its name is its [api.MasterID].
	Master
	// Agent is an agent. Its name is the [api.Nonce] by which it was admitted, because it has that before it has an ID.
	Agent
	// Framework is a scheduler; its name is that of its principal.
	Framework
	// Person is somebody who types commands, or a program that does; the name is that of the principal.
	Person
)

// kindNames are the names of the kinds in certificates.
var kindNames = [...]string{"nobody", "master", "agent", "framework", "person"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// WithArticle returns the kind as it is used in a sentence: "an agent".
func (k Kind) WithArticle() string {
	if k == Agent {
		return "an " + k.String()
	}
	return "a " + k.String()
}

// Identity says who a peer is, as its certificate says. The zero value is [Nobody].
type Identity struct {
	Cluster string // the trust domain: the cluster that issued the certificate
	Kind    Kind
	Name    string // unique within its kind and cluster
}

// scheme is the URI scheme of SPIFFE identities: spiffe://CLUSTER/KIND/NAME.
const scheme = "spiffe"

// URI returns the identity as a certificate has it: spiffe://CLUSTER/KIND/NAME. For Nobody it returns nil.
func (i Identity) URI() *url.URL {
	if i.Kind == Nobody {
		return nil
	}
	return &url.URL{
		Scheme: scheme, Host: i.Cluster,
		Path:    "/" + i.Kind.String() + "/" + i.Name,
		RawPath: "/" + i.Kind.String() + "/" + url.PathEscape(i.Name),
	}
}

// String returns the URI, or "nobody".
func (i Identity) String() string {
	if i.Kind == Nobody {
		return Nobody.String()
	}
	return i.URI().String()
}

// Check returns why i can't be in a certificate, or nil. Nobody can't be in one.
func (i Identity) Check() error {
	if i.Kind == Nobody || int(i.Kind) >= len(kindNames) {
		return fmt.Errorf("%s has no certificate; a master, an agent, a framework or a person has", i.Kind)
	}
	if err := checkCluster(i.Cluster); err != nil {
		return err
	}
	return api.CheckID("the name of "+i.Kind.WithArticle(), i.Name)
}

// checkCluster checks that a trust domain can be the host of a URI without escapes: letters, digits, '-', '_' and '.'.
func checkCluster(cluster string) error {
	if err := api.CheckID("the cluster of an identity", cluster); err != nil {
		return err
	}
	for _, c := range []byte(cluster) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return fmt.Errorf("the cluster of an identity is %q; small letters, digits, '-', '_' and '.' are allowed", cluster)
		}
	}
	return nil
}

// Parse reads what [Identity.String] has written, also "nobody". It refuses text that could be read in two ways.
func Parse(text string) (Identity, error) {
	if text == Nobody.String() {
		return Identity{}, nil
	}
	uri, err := url.Parse(text)
	if err != nil {
		return Identity{}, api.E("identity.parse", api.Invalid, text, err)
	}
	return FromURI(uri)
}

// FromURI reads the URI in a certificate.
func FromURI(uri *url.URL) (Identity, error) {
	refuse := func(err error) (Identity, error) {
		return Identity{}, api.E("identity.parse", api.Invalid, uri.String(), err)
	}
	kind, name, ok := strings.Cut(strings.TrimPrefix(uri.EscapedPath(), "/"), "/")
	if uri.Scheme != scheme || !ok {
		return refuse(fmt.Errorf("it is not of the form %s://CLUSTER/KIND/NAME", scheme))
	}
	name, err := url.PathUnescape(name)
	if err != nil {
		return refuse(err)
	}
	identity := Identity{Cluster: uri.Host, Kind: kindOf(kind), Name: name}
	if err := identity.Check(); err != nil {
		return refuse(err)
	}
	if identity.String() != uri.String() { // it has a user, a port, a query, or escapes what needs no escape
		return refuse(fmt.Errorf("it would be written %s", identity))
	}
	return identity, nil
}

// kindOf returns the kind with this name; Nobody if there is none.
func kindOf(name string) Kind {
	for kind, its := range kindNames {
		if its == name {
			return Kind(kind)
		}
	}
	return Nobody
}

// contextKey is the key under which a context keeps the identity of its caller.
type contextKey struct{}

// With returns a context for a call of the identity. Only transports call it, with what a handshake has proved.
func With(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, identity)
}

// Of returns who makes the call of ctx; [Nobody] if no transport has said.
func Of(ctx context.Context) Identity {
	identity, _ := ctx.Value(contextKey{}).(Identity)
	return identity
}
