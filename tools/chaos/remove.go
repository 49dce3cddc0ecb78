package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tenderhq/tender/internal/testing/chaos"
	"github.com/tenderhq/tender/internal/trust"
)

// removeUnderLoss loses a follower. Of three masters no other one can be removed then, because nobody could lead (R50).
// The lost one can be. It joins again with an empty folder, and then an old copy of its folder is put in its place:
// nobody takes that for the member (R51).
func removeUnderLoss(s *stage, lost *node, _ chaos.Fault) (end func() error, err error) {
	leader, err := s.awaitLeader(s.ctx)
	if err != nil {
		return nil, err
	}
	lost.kill(syscall.SIGKILL)
	for _, other := range s.masters {
		if len(s.masters) == 3 && other != lost && other != leader && s.tender(s.ctx, "raft", "remove", other.name) == "" {
			return nil, fmt.Errorf("%s was removed while %s is lost, so that nobody can lead", other.name, lost.name)
		}
	}
	if err := s.leave(s.ctx, lost); err != nil {
		return nil, err
	}
	folder := filepath.Join(s.dir, lost.name)
	key, err := trust.ReadKey(folder)
	if err == nil {
		err = errors.Join(os.Rename(folder, folder+".old"), os.Mkdir(folder, 0o700))
	}
	return func() error {
		if err := s.enter(s.ctx, lost, key); err != nil {
			return err
		}
		return s.startOld(lost, folder)
	}, err
}

// startOld starts a member with an older folder until the leader says that the member is away, and then with its own.
func (s *stage) startOld(n *node, folder string) error {
	n.kill(syscall.SIGKILL)
	if err := errors.Join(os.Rename(folder, folder+".new"), os.Rename(folder+".old", folder), n.start()); err != nil {
		return err
	}
	if err := s.await(s.ctx, "the refusal of "+n.name+"'s old folder", s.options.heal, func(ctx context.Context) string {
		switch leader := s.leader(ctx); {
		case leader == nil:
			return "nobody leads"
		case leader == n:
			s.r.broken = append(s.r.broken, n.name+" leads with its old folder")
			return ""
		}
		if peers, err := s.ask(ctx, "get", "masters", "--state", "unreachable", "-o", "name"); err != nil || !slices.Contains(strings.Fields(string(peers)), n.name) {
			return "the leader does not say that the member is away"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := s.awaitWrite(); err != nil {
		return err
	}
	if s.tender(s.ctx, "verify", "--wait", "2s") == "" {
		s.r.broken = append(s.r.broken, "tender verify says that all is well, and "+n.name+" runs with an old folder")
	}
	n.kill(syscall.SIGKILL)
	n.forgive()
	return errors.Join(os.RemoveAll(folder), os.Rename(folder+".new", folder), n.start())
}

// movable returns a follower whose folder can be moved: no file system is mounted there.
func movable(s *stage, f chaos.Fault) (*node, error) {
	leader, err := s.awaitLeader(s.ctx)
	others := slices.DeleteFunc(slices.Clone(s.masters), func(n *node) bool {
		return n == leader || s.disk != nil && n == s.masters[0]
	})
	return others[f.Of(len(others))], err
}
