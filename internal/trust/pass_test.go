package trust_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
)

func TestAllMastersDeriveOneAuthority(t *testing.T) {
	dir := t.TempDir()
	c := newCluster(t)
	if err := trust.WriteKey(dir, c.key); err != nil {
		t.Fatal(err)
	}
	key, err := trust.ReadKey(dir)
	if err != nil || key != c.key {
		t.Fatalf("the key was read as %v, %v", key, err)
	}
	ca, err := key.Authority()
	if err != nil || ca.Digest() != c.ca.Digest() {
		t.Errorf("the digests are %v and %v, %v", ca.Digest(), c.ca.Digest(), err)
	}
	if a, b := must(key.FirstToken()), must(c.key.FirstToken()); a != b || a.Digest != ca.Digest() {
		t.Errorf("the first tokens are %v and %v", a, b)
	}
	if bytes.Equal(key.Derive("a"), key.Derive("b")) || !bytes.Equal(key.Derive("a"), c.key.Derive("a")) {
		t.Error("two purposes have one secret, or one purpose has two")
	}
	if err := trust.WriteKey(dir, c.key); !api.Is(err, api.Exists) {
		t.Errorf("a key was written over: %v", err)
	}
	if none, err := trust.ReadKey(t.TempDir()); err != nil || !none.IsZero() {
		t.Errorf("an empty folder has %v, %v", none, err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestAKeyIsNeverPrinted(t *testing.T) {
	key := trust.NewKey()
	secret := strings.Split(string(key.Marshal()), "\n")[3]
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, key); text != "the key of cluster "+key.Cluster() || strings.Contains(text, secret) {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

func TestASecretThatOthersCanReadIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), trust.KeyFile)
	if err := trust.WriteSecret(name, trust.NewKey().Marshal()); err != nil {
		t.Fatal(err)
	}
	if info := must(os.Stat(name)); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, want 0600", info.Mode())
	}
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.ReadKey(filepath.Dir(name)); !api.Is(err, api.Invalid) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("it was read: %v", err)
	}
}

func TestAPassIsReadAsItWasWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "certificate.pem")
	c := newCluster(t)
	fresh := trust.NewPass()
	if err := trust.WritePass(name, fresh); err != nil {
		t.Fatal(err)
	}
	read := must(trust.ReadPass(name))
	if read.IsSigned() || trust.RequestKeyOf(t, read) != trust.RequestKeyOf(t, fresh) {
		t.Error("the key that was kept is another one, or is signed")
	}
	now := time.Now()
	leaf := must(c.ca.SignRequest(must(read.Request()), trust.Identity{Kind: trust.Agent, Name: "a1"}, now))
	signed := must(read.Signed(leaf, c.ca.Anchors().List()))
	if err := trust.WritePass(name, signed); err != nil {
		t.Fatal(err)
	}
	again := must(trust.ReadPass(name))
	if want := (trust.Identity{Cluster: c.key.Cluster(), Kind: trust.Agent, Name: "a1"}); again.Identity() != want {
		t.Errorf("it is of %v, want %v", again.Identity(), want)
	}
	if half := now.Add(15 * 24 * time.Hour); again.RenewAt().Sub(half).Abs() > time.Minute {
		t.Errorf("it is renewed at %v, want %v", again.RenewAt(), half)
	}
	if _, err := trust.NewPass().Signed(leaf, again.Anchors().List()); err == nil {
		t.Error("a certificate was taken for another key")
	}
	if _, err := read.Signed(leaf, newCluster(t).ca.Anchors().List()); err == nil {
		t.Error("a certificate was taken that another authority has signed")
	}
	if none, err := trust.ReadPass(filepath.Join(t.TempDir(), "none")); none != nil || err != nil {
		t.Errorf("a file that is not there is read as %v, %v", none, err)
	}
}

func TestWhatIsNoRequestIsNotSigned(t *testing.T) {
	c := newCluster(t)
	request := must(trust.NewPass().Request())
	request[len(request)-1] ^= 1 // the last byte of the signature
	for _, der := range [][]byte{nil, []byte("x"), request} {
		if _, err := c.ca.SignRequest(der, trust.Identity{Kind: trust.Agent, Name: "a1"}, time.Now()); !api.Is(err, api.Invalid) {
			t.Errorf("%d bytes were signed: %v", len(der), err)
		}
	}
	for _, identity := range []trust.Identity{{}, {Kind: trust.Agent}, {Kind: trust.Agent, Name: "a/b"}} {
		if _, err := c.ca.SignRequest(must(trust.NewPass().Request()), identity, time.Now()); !api.Is(err, api.Invalid) {
			t.Errorf("%#v was given a certificate: %v", identity, err)
		}
	}
}

func TestATokenIsReadAsItWasWritten(t *testing.T) {
	token := trust.NewToken(newCluster(t).ca.Digest())
	if got, err := trust.ParseToken(" " + token.String() + "\n"); err != nil || got != token {
		t.Errorf("it is read as %v, %v", got, err)
	}
	if !trust.SecretFits(token.Secret, token.Hash()) || trust.SecretFits(token.Secret+"x", token.Hash()) || trust.SecretFits("", token.Hash()) {
		t.Error("the wrong secrets fit")
	}
	whole := token.String()
	for _, text := range []string{"", "x", whole[:30], whole[1:], strings.Replace(whole, "_", "-", 1), whole + "_x", strings.TrimSuffix(whole, token.Secret)} {
		_, err := trust.ParseToken(text)
		if err == nil {
			t.Errorf("%q was read as a token", text)
		} else if strings.Contains(err.Error(), token.Secret) {
			t.Errorf("the error holds the secret: %v", err)
		}
	}
}
