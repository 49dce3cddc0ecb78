package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

// seekSession opens the session at once, or lets a standby wait for its turn (R6).
func (c *Core) seekSession(s *session) {
	fw := c.standbyOf(s)
	if fw != nil && fw.info.Principal != s.principal {
		c.refuseSession(s, api.E("framework.subscribe", api.Denied, fw.id,
			fmt.Errorf("the name %q belongs to principal %q, not to %q", fw.info.Name, fw.info.Principal, s.principal)))
		return
	}
	if active := c.ahead(s, fw); active != "" {
		c.wait(s, active)
		return
	}
	if c.openSession(s) && s.subscribe.Framework.Standby {
		c.seekers[s.subscribe.Framework.Name] = s
	}
}

// standbyOf is the framework whose place the session wants, if names are its identity. The
// name goes before the ID, as in the registry.
func (c *Core) standbyOf(s *session) *framework {
	wish := s.subscribe.Framework
	id := wish.ID
	if named := c.standbys[wish.Name]; named != "" && wish.Standby {
		id = named
	}
	if fw := c.frameworks[id]; fw != nil && fw.info.Standby && !fw.removed {
		return fw
	}
	return nil
}

// ahead is the instance that has the place, or may still come back to it; "" = free.
func (c *Core) ahead(s *session, fw *framework) api.Nonce {
	if other := c.seekers[s.subscribe.Framework.Name]; other != nil && other != s && s.subscribe.Framework.Standby {
		return other.subscribe.Instance
	}
	if fw == nil {
		return ""
	}
	last := c.registry.Frameworks[fw.id].Instance
	if last == s.subscribe.Instance || last == "" {
		return ""
	}
	if fw.session != nil || c.now.Before(fw.place) {
		return last
	}
	return ""
}

// wait queues a standby; it is told once.
func (c *Core) wait(s *session, active api.Nonce) {
	if !slices.Contains(c.waiting, s) {
		c.waiting = append(c.waiting, s)
	}
	if !s.waiting {
		s.waiting = true
		c.info("standby waits", field("name", s.subscribe.Framework.Name), field("instance", s.subscribe.Instance), field("active", active))
		c.emit(ToScheduler{Conn: s.conn, Event: protocol.Waiting{ActiveInstance: active}})
	}
}

func (c *Core) stopWaiting(s *session) {
	c.waiting = slices.DeleteFunc(c.waiting, func(other *session) bool { return other == s })
}

// seekDone: the proposal of a standby has come to its end.
func (c *Core) seekDone(s *session) {
	if name := s.subscribe.Framework.Name; c.seekers[name] == s {
		delete(c.seekers, name)
	}
}

// keepPlace keeps the place of an instance that was seen last at that time.
func (c *Core) keepPlace(fw *framework, seen time.Time) {
	if !fw.info.Standby || fw.removed {
		return
	}
	fw.place = seen.Add(c.config.SessionTimeout)
	c.deadlines.set(fw.turn, fw.place)
}

// nextStandby gives a free place to the one that waits longest.
func (c *Core) nextStandby(name string) {
	for _, s := range c.waiting {
		if s.subscribe.Framework.Name == name {
			c.stopWaiting(s)
			c.seekSession(s)
			return
		}
	}
}
