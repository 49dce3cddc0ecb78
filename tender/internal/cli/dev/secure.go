package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/trust"
)

const (
	// agentsToken is the file in the folder with the token with which agents join that are processes of their own.
	agentsToken = "agents.token"
	// tokenLife is how long the tokens of agents and of the job manager are valid. dev makes new ones at each start.
	tokenLife = 30 * 24 * time.Hour
	// jobsPrincipal is the principal of the job manager.
	jobsPrincipal = "jobs"
)

// foundCluster gives every master the key of the cluster, a new one if the folder is new, and makes the first
// operator's token. The folder of a cluster without certificates stays without them.
func (h *house) foundCluster() error {
	masters := h.cluster.Masters
	key, used, err := keyOf(masters)
	insecure := h.config.Insecure
	switch {
	case err != nil:
		return err
	case insecure && !key.IsZero():
		return fmt.Errorf("%s holds a cluster with certificates; leave --insecure out, or name another folder", h.cluster.Dir)
	case !insecure && key.IsZero() && used:
		h.config.Say("%s holds a cluster without certificates, and goes on so: whoever is on this machine may do everything; another folder begins with them", h.cluster.Dir)
		insecure = true
	case key.IsZero():
		key = trust.NewKey()
	}
	for i := range masters {
		masters[i].Insecure = insecure
	}
	if insecure {
		return nil
	}
	token, err := key.FirstToken()
	if err != nil {
		return err
	}
	for _, master := range masters {
		if err := giveKey(master.Dir, key); err != nil {
			return err
		}
	}
	h.token = token.String()
	return trust.WriteSecret(h.tokenFile(), []byte(h.token+"\n"))
}

// tokenFile returns the file with the first operator's token.
func (h *house) tokenFile() string {
	return filepath.Join(h.cluster.Masters[0].Dir, trust.FirstTokenFile)
}

// keyOf returns the key of the cluster's masters; used says that one of them has run before.
func keyOf(masters []Master) (key trust.Key, used bool, err error) {
	for _, master := range masters {
		if key, err = trust.ReadKey(master.Dir); err != nil || !key.IsZero() {
			return key, used, err
		}
		entries, err := os.ReadDir(master.Dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return trust.Key{}, false, err
		}
		// A master that was killed before it had its key has left an empty folder, or a hidden draft of the key.
		used = used || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") })
	}
	return trust.Key{}, used, nil
}

func giveKey(dir string, key trust.Key) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := trust.WriteKey(dir, key)
	if api.Is(err, api.Exists) {
		return nil
	}
	return err
}

// connectFirst connects as the first operator, once a master leads.
func (h *house) connectFirst(ctx context.Context) (apiv1.OperatorServiceClient, io.Closer, error) {
	return h.config.Operator(ctx, h.cluster.masterAddresses(), h.token, func(err error) {
		if time.Since(h.start) > slowAfter {
			h.config.Say("still starting: no master leads yet (%v)", err)
		}
	})
}

func closeAll(closer io.Closer) error {
	if closer == nil {
		return nil
	}
	return closer.Close()
}

// makeTokens makes the tokens with which the agents and the job manager join. It returns that of the job manager.
func (h *house) makeTokens(ctx context.Context, operator apiv1.OperatorServiceClient) (jobs string, err error) {
	if h.token == "" {
		return "", nil
	}
	if len(h.cluster.Agents) > 0 {
		token, err := h.makeToken(ctx, operator, AgentsToken)
		if err != nil {
			return "", err
		}
		name := filepath.Join(h.cluster.Dir, agentsToken)
		if err := trust.WriteSecret(name, []byte(token+"\n")); err != nil {
			return "", err
		}
		for i := range h.cluster.Agents {
			h.cluster.Agents[i].Token, h.cluster.Agents[i].TokenFile = token, name
		}
	}
	if h.config.RunJobs == nil {
		return "", nil
	}
	return h.makeToken(ctx, operator, JobsToken)
}

// makeToken makes a token, and tries again if the leadership changes meanwhile. A token that was made without our being
// told does no harm.
func (h *house) makeToken(
	ctx context.Context, operator apiv1.OperatorServiceClient, makeToken func(context.Context, apiv1.OperatorServiceClient) (string, error),
) (string, error) {
	for told := h.start; ; {
		token, err := makeToken(ctx, operator)
		if !api.Transient(err) || !pause.For(ctx, readyPoll) {
			return token, err
		}
		if time.Since(told) > slowAfter {
			told = time.Now()
			h.config.Say("still starting: a token could not be made (%v)", err)
		}
	}
}

// AgentsToken makes the token with which agents join. It can be used any number of times, because an agent that was
// marked gone joins anew.
func AgentsToken(ctx context.Context, operator apiv1.OperatorServiceClient) (string, error) {
	answer, err := operator.CreateToken(ctx, &apiv1.CreateTokenRequest{Kind: "agent", Ttl: durationpb.New(tokenLife)})
	return answer.GetToken(), err
}

// JobsToken makes the token with which a job manager joins, and grants it to run jobs in every role.
func JobsToken(ctx context.Context, operator apiv1.OperatorServiceClient) (string, error) {
	answer, err := operator.CreateToken(ctx, &apiv1.CreateTokenRequest{Kind: "framework", Principal: jobsPrincipal, Ttl: durationpb.New(tokenLife)})
	if err != nil {
		return "", err
	}
	_, err = operator.Grant(ctx, &apiv1.GrantRequest{Principal: jobsPrincipal, Grant: &apiv1.PrincipalGrant{Verb: "run"}})
	return answer.GetToken(), err
}

// announceToken lets programs find the cluster's token, until withdraw is called. If that is not possible, it tells
// people what to do.
func (h *house) announceToken() (withdraw func() error) {
	none := func() error { return nil }
	if h.token == "" {
		return none
	}
	withdraw, err := h.config.Announce(h.cluster.masterAddresses(), h.token)
	if err != nil {
		h.config.Say("other programs do not find the token of this cluster by themselves (%v); give it to them: export TENDER_TOKEN=$(cat %s)", err, h.tokenFile())
		return none
	}
	return withdraw
}
