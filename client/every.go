package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/pause"
	"github.com/tenderhq/tender/internal/protocol"
)

// FromMaster is an answer that says which master it is from.
type FromMaster interface{ GetMasterId() string }

// Silent is a master of the quorum that has not answered, and why.
type Silent struct{ ID, Why string }

// AskEvery asks each master of the quorum, all at once. It returns their answers in the order of their IDs, and the
// masters that have not answered; it is an error if none has. Any master says which masters there are, with a leader or
// without one. A master is asked at the address that it names itself, and at the addresses that the client was given,
// which may differ.
func AskEvery[Answer FromMaster](
	ctx context.Context, c *Client, ask func(context.Context, grpc.ClientConnInterface) (Answer, error),
) (answers []Answer, silent []Silent, err error) {
	members, err := c.Operator().ListMasters(ctx, &apiv1.ListRequest{Stale: true})
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	failed := map[string]error{} // by address
	var asked sync.WaitGroup
	for _, address := range c.addressesOf(members.GetItems()) {
		asked.Go(func() {
			answer, err := ask(ctx, c.At(address))
			mu.Lock()
			defer mu.Unlock()
			same := func(other Answer) bool { return other.GetMasterId() == answer.GetMasterId() }
			if err != nil {
				failed[address] = err
			} else if !slices.ContainsFunc(answers, same) {
				answers = append(answers, answer)
			}
		})
	}
	asked.Wait()
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.GetMasterId(), b.GetMasterId()) })
	for _, member := range members.GetItems() {
		if slices.ContainsFunc(answers, func(a Answer) bool { return a.GetMasterId() == member.GetId() }) {
			continue
		}
		why := "it has said no address yet"
		if failure := failed[member.GetGrpcAddress()]; failure != nil {
			why = c.WhySilent(member.GetGrpcAddress(), failure)
			if err == nil || !api.Is(Error(failure), api.NotLeader) { // the leader knows best who may do this
				err = failure
			}
		}
		silent = append(silent, Silent{member.GetId(), why})
	}
	if len(answers) > 0 {
		return answers, silent, nil
	}
	return nil, silent, nobodyAnswered(silent, err)
}

// nobodyAnswered returns why no master has answered: what one of them said, or else which ones were tried.
func nobodyAnswered(silent []Silent, err error) error {
	if detailOf(err) != nil {
		return Error(err)
	}
	tried := make([]string, len(silent))
	for i, s := range silent {
		tried[i] = s.ID + " (" + s.Why + ")"
	}
	return &Unreachable{Tried: strings.Join(tried, ", ")}
}

// addressesOf returns the addresses of the masters, and those that the client was given.
func (c *Client) addressesOf(members []*apiv1.MasterView) (all []string) {
	for _, member := range members {
		if address := member.GetGrpcAddress(); CheckAddress(address) == nil {
			all = append(all, address)
		}
	}
	for _, address := range c.Masters() {
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all[:min(len(all), mastersMax)]
}

// WhySilent returns why a call of [Client.At] to a master has failed, in a few words.
func (c *Client) WhySilent(address string, err error) string {
	if detail := detailOf(err); detail != nil {
		if detail.GetKind() == apiv1.ErrorKind_NOT_LEADER { // so it says to those who may not, as far as it knows
			return "it has not heard yet that you may"
		}
		return detail.GetMessage()
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		return "does not answer"
	case codes.Unimplemented:
		return "its version does not know this call"
	}
	return c.whyRefused(address, err)
}

// At returns a connection to one master, whether that leads or not.
func (c *Client) At(address string) grpc.ClientConnInterface { return &one{c, address} }

// one is such a connection.
type one struct {
	client  *Client
	address string
}

// Invoke calls this master, and once more if it says when to come back.
func (o *one) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	call := func() error {
		return o.client.attempt(ctx, o.address, func(ctx context.Context, conn *grpc.ClientConn) error {
			ctx, cancel := context.WithTimeout(ctx, longest(method))
			defer cancel()
			return conn.Invoke(ctx, method, args, reply, opts...)
		})
	}
	err := call()
	after := api.RetryAfter(Error(err))
	if after <= 0 || after > o.client.config.Patience || !pause.For(ctx, protocol.RetryWait(after, 0)) {
		return err
	}
	return call()
}

// NewStream returns an error: nothing that is asked of each master is a stream.
func (o *one) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, errors.ErrUnsupported
}
