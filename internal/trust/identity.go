package trust

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Kind is what somebody is to the cluster.
type Kind uint8

// The kinds of identities.
const (
	// Nobody has shown no certificate of this cluster.
	Nobody Kind = iota
	// Master is a member of the quorum, or one that joins it; its name is its [api.MasterID].
	Master
	// Agent is an agent; its name is the [api.Nonce] by which it was admitted, which it has before it has an ID.
	Agent
	// Framework is a scheduler; its name is its principal's.
	Framework
	// Person is somebody who types commands, or a program that does; the name is the principal's.
	Person
)

// kindNames are the kinds as they stand in a certificate.
var kindNames = [...]string{"nobody", "master", "agent", "framework", "person"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// WithArticle is the kind as it stands in a sentence: "an agent".
func (k Kind) WithArticle() string {
	if k == Agent {
		return "an " + k.String()
	}
	return "a " + k.String()
}

// Identity is who somebody is: what the certificate of a peer says. The zero value is [Nobody].
type Identity struct {
	Cluster string // the trust domain: the cluster that issued the certificate
	Kind    Kind
	Name    string // unique within its kind and cluster
}

// scheme is that of SPIFFE identities: spiffe://CLUSTER/KIND/NAME.
const scheme = "spiffe"

// URI is how a certificate names the identity: spiffe://CLUSTER/KIND/NAME. Nobody has none: nil.
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

// String is the URI, or "nobody".
func (i Identity) String() string {
	if i.Kind == Nobody {
		return Nobody.String()
	}
	return i.URI().String()
}

// Check reports why i can't stand in a certificate, or nil. Nobody can't.
func (i Identity) Check() error {
	if i.Kind == Nobody || int(i.Kind) >= len(kindNames) {
		return fmt.Errorf("%s has no certificate; a master, an agent, a framework or a person has", i.Kind)
	}
	if err := checkCluster(i.Cluster); err != nil {
		return err
	}
	return api.CheckID("the name of "+i.Kind.WithArticle(), i.Name)
}

// checkCluster holds a trust domain to what a URI's host can be without escapes: letters, digits, '-', '_' and '.'.
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

// Parse reads what [Identity.String] has written; "nobody" too. It refuses what could be read in two ways.
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

// FromURI reads the name that a certificate bears.
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
	if identity.String() != uri.String() { // a user, a port, a query, another way to escape
		return refuse(fmt.Errorf("it would be written %s", identity))
	}
	return identity, nil
}

// kindOf reads a kind; what is none is Nobody.
func kindOf(name string) Kind {
	for kind, its := range kindNames {
		if its == name {
			return Kind(kind)
		}
	}
	return Nobody
}

// contextKey is where a context keeps the identity of its caller.
type contextKey struct{}

// With is ctx for a call of the identity. Only transports say it, of what a handshake has proved.
func With(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, identity)
}

// Of is who makes the call of ctx; [Nobody] if no transport has said.
func Of(ctx context.Context) Identity {
	identity, _ := ctx.Value(contextKey{}).(Identity)
	return identity
}
