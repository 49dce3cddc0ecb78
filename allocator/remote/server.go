package remote

import (
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/allocator"
	"github.com/tenderhq/tender/allocator/inputs"
	"github.com/tenderhq/tender/allocator/internal/codec"
	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
)

// Server serves a policy to masters; register it with apiv1.RegisterAllocatorServiceServer. Every session has a policy
// of its own, which one goroutine calls.
type Server struct {
	apiv1.UnimplementedAllocatorServiceServer
	// Policy makes the policy for a session.
	Policy allocator.New
}

// served is one session.
type served struct {
	stream apiv1.AllocatorService_SessionServer
	policy allocator.Allocator
	codec  codec.Codec
	count  uint64 // number of inputs so far
}

// Session serves one master.
func (s *Server) Session(stream apiv1.AllocatorService_SessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	policy, err := s.Policy(codec.ConfigOf(first.GetHello()))
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if err := stream.SendHeader(metadata.MD{}); err != nil { // the greeting is accepted
		return err
	}
	serving := &served{stream: stream, policy: policy, codec: codec.Codec{Epoch: time.Unix(0, 0).UTC()}}
	for batch := first; ; {
		if err := serving.take(batch); err != nil {
			return err
		}
		if batch, err = stream.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (s *served) take(batch *apiv1.AllocatorInputs) error {
	if len(batch.GetInputs()) > 0 && batch.GetFirst() != s.count+1 {
		return status.Error(codes.InvalidArgument, fmt.Sprintf("input %d follows input %d", batch.GetFirst(), s.count))
	}
	for _, m := range batch.GetInputs() {
		s.count++
		input, err := s.codec.InputFromProto(m)
		if err != nil {
			return status.Error(codes.InvalidArgument, fmt.Sprintf("input %d: %v", s.count, err))
		}
		switch input := input.(type) {
		case nil: // from a later version
		case inputs.Allocate:
			if err := s.run(input.At); err != nil {
				return err
			}
		default:
			input.Apply(s.policy)
		}
	}
	return s.reply(batch.GetQuestions())
}

// run calls the policy and sends its proposals, in messages below the size limit.
func (s *served) run(at time.Time) error {
	allocation := s.policy.Allocate(at)
	answer := &apiv1.AllocatorAnswers{Saw: s.count}
	size := 0
	send := func(bytes int) error {
		if size += bytes; size <= batchBytes {
			return nil
		}
		answer.More = true
		err := s.stream.Send(answer)
		answer, size = &apiv1.AllocatorAnswers{Saw: s.count}, 0
		return err
	}
	for _, claim := range allocation.Offers {
		m := s.codec.ClaimToProto(claim)
		answer.Offers = append(answer.Offers, m)
		if err := send(proto.Size(m)); err != nil {
			return err
		}
	}
	for _, inverse := range allocation.Inverse {
		m := s.codec.InverseToProto(inverse)
		answer.Inverse = append(answer.Inverse, m)
		if err := send(proto.Size(m)); err != nil {
			return err
		}
	}
	for _, claim := range allocation.Spared {
		m := s.codec.ClaimToProto(claim)
		answer.Spared = append(answer.Spared, m)
		if err := send(proto.Size(m)); err != nil {
			return err
		}
	}
	answer.Wake = s.codec.Nanos(s.policy.Wake())
	return s.stream.Send(answer)
}

func (s *served) reply(questions []*apiv1.AllocatorQuestion) error {
	if len(questions) == 0 {
		return nil
	}
	answer := &apiv1.AllocatorAnswers{}
	for _, question := range questions {
		reply := &apiv1.AllocatorReply{Number: question.GetNumber()}
		switch what := question.GetQuestion().(type) {
		case *apiv1.AllocatorQuestion_Explain:
			said := s.policy.Explain(api.FrameworkID(what.Explain.GetFrameworkId()), api.AgentID(what.Explain.GetAgentId()), s.codec.Time(question.GetAt()))
			reply.Reasons = said.Reasons
		case *apiv1.AllocatorQuestion_Shares:
			shares := s.policy.Shares()
			reply.FrameworkShares, reply.RoleShares = make(map[string]float64), make(map[string]float64)
			for id, share := range shares.Frameworks {
				reply.FrameworkShares[string(id)] = share
			}
			for role, share := range shares.Roles {
				reply.RoleShares[string(role)] = share
			}
		}
		answer.Replies = append(answer.Replies, reply)
	}
	return s.stream.Send(answer)
}
