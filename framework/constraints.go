package framework

import (
	"context"
	"time"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

const (
	// judgePatience is how long the leader may take to judge a constraint. After that the constraint is judged with its
	// demand.
	judgePatience = 3 * time.Second
	// soundMax bounds the constraints that are remembered as valid; beyond it all are forgotten and judged anew.
	soundMax = 1024
)

// checkConstraint has the leader judge a constraint that it has not judged before. If the leader can't be asked now, it
// judges the constraint with the demand, and refuses the demand if need be.
func (s *presence) checkConstraint(text string) error {
	s.mu.Lock()
	link, known := s.link, s.sound[text]
	s.mu.Unlock()
	if text == "" || known || link == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), judgePatience)
	defer cancel()
	_, err := apiv1.NewOperatorServiceClient(link.Conn()).CheckConstraint(ctx, &apiv1.CheckConstraintRequest{Constraint: text})
	if err != nil {
		if answer := wire.Error(err); answer.Kind == api.Invalid {
			return answer.Err
		}
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sound == nil || len(s.sound) >= soundMax {
		s.sound = make(map[string]bool)
	}
	s.sound[text] = true
	return nil
}
