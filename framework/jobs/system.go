package jobs

import "github.com/tenderhq/tender/api"

// System says how the tasks of a system job are changed. A system job has one task on each agent that matches
// Task.Where, including agents that come later.
type System struct {
	// AtOnce, Proof, Canary, CanaryProof and KeepBad mean what they mean for a service.
	AtOnce      int      `json:"at_once,omitempty" toml:"at_once"`
	Proof       Duration `json:"proof,omitempty" toml:"proof"`
	Canary      int      `json:"canary,omitempty" toml:"canary"`
	CanaryProof Duration `json:"canary_proof,omitempty" toml:"canary_proof"`
	KeepBad     bool     `json:"keep_bad,omitempty" toml:"keep_bad"`
}

func (s *System) withDefaults() *System {
	var full System
	if s != nil {
		full = *s
	}
	like := (&Service{AtOnce: full.AtOnce, Proof: full.Proof, CanaryProof: full.CanaryProof}).withDefaults()
	full.AtOnce, full.Proof, full.CanaryProof = like.AtOnce, like.Proof, like.CanaryProof
	return &full
}

// Rolling says how the tasks of the job are changed; nil if they are not kept running. The job must have its defaults.
func (j Job) Rolling() *Service {
	if s := j.System; s != nil {
		return &Service{AtOnce: s.AtOnce, Proof: s.Proof, Canary: s.Canary, CanaryProof: s.CanaryProof, KeepBad: s.KeepBad}
	}
	return j.Service
}

// checkRolling checks the fields that say how tasks are changed.
func (p *Problems) checkRolling(field string, s *Service) {
	p.within(field+".at_once", s.AtOnce, 1, TasksMax)
	p.within(field+".canary", s.Canary, 0, TasksMax)
	p.notNegative(field+".proof", s.Proof)
	p.notNegative(field+".canary_proof", s.CanaryProof)
}

// onEachAgent returns the task of a system job, of which each agent has one.
func (t Task) onEachAgent() Task {
	t.Spread, t.Most = api.ByAgent, 1
	return t
}
