package jobs

import "github.com/tenderhq/tender/api"

// System says how the tasks of a system job are changed. A system job has one task on each agent that matches
// Task.Where, including agents that come later.
type System struct {
	// AtOnce, Proof, Canary, CanaryProof, KeepBad and ProgressDeadline mean what they mean for a service.
	AtOnce           int      `json:"at_once,omitempty" toml:"at_once" rule:"1..10000"`
	Proof            Duration `json:"proof,omitempty" toml:"proof" rule:"positive"`
	Canary           int      `json:"canary,omitempty" toml:"canary" rule:"0..10000"`
	CanaryProof      Duration `json:"canary_proof,omitempty" toml:"canary_proof" rule:"positive needs=canary"`
	KeepBad          bool     `json:"keep_bad,omitempty" toml:"keep_bad"`
	ProgressDeadline Duration `json:"progress_deadline,omitempty" toml:"progress_deadline" rule:"positive"`
}

func (s *System) withDefaults(checks Duration) *System {
	var full System
	if s != nil {
		full = *s
	}
	like := full.service().withDefaults(checks)
	full.AtOnce, full.Proof, full.CanaryProof, full.ProgressDeadline = like.AtOnce, like.Proof, like.CanaryProof, like.ProgressDeadline
	return &full
}

// Rolling says how the tasks of the job are changed; nil if they are not kept running. The job must have its defaults.
func (j Job) Rolling() *Service {
	if j.System != nil {
		return j.System.service()
	}
	return j.Service
}

// service returns a service that changes in the same way.
func (s *System) service() *Service {
	return &Service{AtOnce: s.AtOnce, Proof: s.Proof, Canary: s.Canary, CanaryProof: s.CanaryProof, KeepBad: s.KeepBad, ProgressDeadline: s.ProgressDeadline}
}

// checkProgress checks that a task can prove itself before the change is given up.
func (p *Problems) checkProgress(field string, s *Service) {
	if need := s.longestProof(); s.ProgressDeadline > 0 && s.ProgressDeadline <= need {
		p.say(field+".progress_deadline", "it is %v, and a task proves itself in %v; write a longer time", s.ProgressDeadline, need)
	}
}

// onEachAgent returns the task of a system job, of which each agent has one.
func (t Task) onEachAgent() Task {
	t.Spread, t.Most = api.ByAgent, 1
	return t
}
