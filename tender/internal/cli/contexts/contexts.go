// Package contexts keeps, in a folder of a person's own, the clusters that the person has joined: where their masters
// are, and the pass for each. An expired pass is replaced with the token that is kept beside it. It knows no flags and
// prints nothing.
package contexts

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/trust"
	"github.com/tenderhq/tender/internal/trust/joining"
)

// Folder is the folder with the contexts:
//
//	current      the name of the context that commands use
//	NAME.json    masters and token of a context
//	NAME.pem     its pass
type Folder string

// Context is a cluster that the person has joined.
type Context struct {
	Name    string   `json:"-"`
	Masters []string `json:"masters"`
	Token   string   `json:"token"`
}

const currentFile = "current"

func (f Folder) at(name string) string { return filepath.Join(string(f), name) }

// List returns the names of all contexts, sorted.
func (f Folder) List() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name, is := strings.CutSuffix(entry.Name(), ".json"); is && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// Current returns the name of the context that commands use; "" if none was chosen.
func (f Folder) Current() (string, error) {
	if f == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.at(currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// Use chooses the context that commands use.
func (f Folder) Use(name string) error {
	if _, err := f.Read(name); err != nil {
		return err
	}
	return trust.WriteSecret(f.at(currentFile), []byte(name+"\n"))
}

// Read reads a context.
func (f Folder) Read(name string) (Context, error) {
	const op = "context.read"
	if err := api.CheckID("the context", name); err != nil {
		return Context{}, api.E(op, api.Invalid, name, err)
	}
	text, err := trust.ReadSecret(f.at(name + ".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, api.E(op, api.NotFound, name, errors.New("there is no such context; 'tender context' lists them, and 'tender login' makes one"))
	}
	c := Context{Name: name}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return Context{}, api.E(op, api.Invalid, name, err)
	}
	return c, nil
}

// Having finds the context in which one of the masters is named, the chosen one first; "" if there is none.
func (f Folder) Having(masters []string) (string, error) {
	current, err := f.Current()
	if err != nil {
		return "", err
	}
	names, err := f.List()
	if err != nil {
		return "", err
	}
	for _, name := range append([]string{current}, names...) {
		if !slices.Contains(names, name) {
			continue
		}
		c, err := f.Read(name)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(c.Masters, func(master string) bool { return slices.Contains(masters, master) }) {
			return name, nil
		}
	}
	return "", nil
}

// Write writes a context with its pass.
func (f Folder) Write(c Context, pass *trust.Pass) error {
	if err := api.CheckID("the context", c.Name); err != nil {
		return api.E("context.write", api.Invalid, c.Name, err)
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	if err := trust.WritePass(f.at(c.Name+".pem"), pass); err != nil {
		return err
	}
	return f.write(c)
}

func (f Folder) write(c Context) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return trust.WriteSecret(f.at(c.Name+".json"), append(text, '\n'))
}

// Remove deletes a context.
func (f Folder) Remove(name string) error {
	if _, err := f.Read(name); err != nil {
		return err
	}
	return errors.Join(os.Remove(f.at(name+".json")), os.Remove(f.at(name+".pem")))
}

const (
	// joinMax limits a login, and renewMax a renewal in the course of a command.
	joinMax  = 15 * time.Second
	renewMax = 2 * time.Second
)

// Join logs in with a token. While no master gives a certificate it tries again for a while. failed, if it is not nil,
// is called with the reason whenever that has changed.
func Join(
	ctx context.Context, masters []string, dial trust.Dial, token trust.Token, failed func(address string, err error),
) (*trust.Pass, error) {
	ctx, cancel := context.WithTimeout(ctx, joinMax)
	defer cancel()
	answer, err := joining.Join(ctx, joining.Config{Masters: masters, Dial: dial, Failed: failed, Kinds: []trust.Kind{trust.Person, trust.Framework}}, token, trust.NewPass())
	if err != nil {
		return nil, err
	}
	return answer.Pass, nil
}

// Pass returns the pass of a context. When half of its life is over, one of the masters renews it.
func (f Folder) Pass(ctx context.Context, c Context, masters []string, dial trust.Dial) (*trust.Pass, error) {
	pass, err := trust.ReadPass(f.at(c.Name + ".pem"))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	switch {
	case pass.IsSigned() && now.Before(pass.RenewAt()):
		return pass, nil
	case pass.IsSigned() && now.Before(pass.Ends()):
		renewing, cancel := context.WithTimeout(ctx, renewMax)
		defer cancel()
		renewed, err := joining.Renew(renewing, joining.Config{Masters: masters, Dial: dial}, trust.NewHolder(pass))
		if err != nil {
			return pass, nil // it is still valid for as long, and the next command tries again
		}
		return renewed, f.Renewed(c.Name, renewed)
	}
	token, err := trust.ParseToken(c.Token)
	if err != nil {
		return nil, err
	}
	pass, err = Join(ctx, masters, dial, token, nil)
	if err != nil {
		return nil, err
	}
	return pass, f.Write(c, pass)
}

// Renewed writes a new certificate of the context, and its token with the digest of the authority that has signed it.
func (f Folder) Renewed(name string, pass *trust.Pass) error {
	c, err := f.Read(name) // read again, because other masters may have been told since
	if err != nil {
		return err
	}
	c.Token = tokenOf(c.Token, pass)
	return f.Write(c, pass)
}

// Told writes which masters the context has, if they have changed.
func (f Folder) Told(name string, masters []string) error {
	c, err := f.Read(name)
	if err != nil || slices.Equal(c.Masters, masters) {
		return err
	}
	c.Masters = masters
	return f.write(c)
}

// tokenOf returns the token with the digest of the authority that has signed the pass, which may have changed since.
func tokenOf(text string, pass *trust.Pass) string {
	token, err := trust.ParseToken(text)
	if err != nil {
		return text
	}
	token.Digest = pass.Authority()
	return token.String()
}
