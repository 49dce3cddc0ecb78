package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/wire"
)

// An answer waits in memory until its peer reads it: gRPC takes the whole answer at once, ends the call, and writes
// what the peer's windows have room for. So there is a bound on the answers that a connection has not read, and on
// those that all connections of an address, and of a principal, have not read together. Beyond the bound an answer is
// thrown away as soon as its size is known, and made again when there is room for it, so that a peer which waits holds
// no memory. (Protocol rule R34.)

const (
	// unreadConnectionMax bounds the bytes of answers that a connection has not read; a single answer may be larger.
	// unreadAddressMax and unreadPrincipalMax bound those of all connections of an address and of a principal.
	unreadConnectionMax = 1 << 20
	unreadAddressMax    = 8 << 20
	unreadPrincipalMax  = 16 << 20
	// unreadSmall is the largest answer that is not counted, because its stream takes as much memory anyway.
	unreadSmall = 4 << 10
	// unreadTimeMax is how long an answer may wait for its peer to read it. After that the connection is closed,
	// because nothing less makes gRPC let go of the answer.
	unreadTimeMax = 30 * time.Second
	// unreadTurnMax is how long an answer may stay unread while another one of the same address or principal waits for
	// room. After that the connection that has not read for longest is closed to make room.
	unreadTurnMax = time.Second
)

// Unread counts what all peers together have not read of their answers.
type Unread struct {
	Bytes  atomic.Int64
	Closed atomic.Uint64 // connections that were closed because their peer did not read
}

// unreadAnswer is an answer that is counted until it is read.
type unreadAnswer struct {
	by        *Sender
	bytes     int
	principal *account // the account of its principal, for which it counts too; nil: none
	since     time.Time
	late      *time.Timer // closes the connection
	once      sync.Once   // gives its room back
}

// room is a budget for unread answers, and how much of it an answer takes. An answer that is larger than the budget
// takes all of it.
type room struct {
	of     *Budget
	amount int
	whose  *account // the account that has the budget; nil: it is the connection's own
}

// rooms returns the room that an answer of that size needs in each budget, always in this order.
func (s *Sender) rooms(bytes int, principal *account) []room {
	all := []room{{s.unread, min(bytes, unreadConnectionMax), nil}}
	if s.address != nil {
		all = append(all, room{s.address.unread, min(bytes, unreadAddressMax), s.address})
	}
	if principal != nil {
		all = append(all, room{principal.unread, min(bytes, unreadPrincipalMax), principal})
	}
	return all
}

// whose returns the sender's principal; nil when it has none, or when it is not known yet.
func (s *Sender) whose() *account {
	if s.address == nil {
		return nil
	}
	s.address.mu.Lock()
	defer s.address.mu.Unlock()
	return s.principal
}

// countUnread takes room for an answer; nil when there is too little.
func (s *Sender) countUnread(bytes int) *unreadAnswer {
	principal := s.whose()
	rooms := s.rooms(bytes, principal)
	for i, one := range rooms {
		if !one.of.Try(one.amount) {
			giveRooms(rooms[:i])
			return nil
		}
	}
	return s.countedAs(bytes, principal)
}

// awaitUnread waits for room for an answer; nil when ctx ends first.
func (s *Sender) awaitUnread(ctx context.Context, bytes int) *unreadAnswer {
	principal := s.whose()
	rooms := s.rooms(bytes, principal)
	for i, one := range rooms {
		oldest := time.AfterFunc(unreadTurnMax, func() { one.whose.makeRoom() })
		ok := one.of.Take(ctx, nil, s, one.amount)
		if oldest.Stop(); !ok {
			giveRooms(rooms[:i])
			return nil
		}
	}
	return s.countedAs(bytes, principal)
}

func giveRooms(rooms []room) {
	for _, one := range rooms {
		one.of.Give(one.amount)
	}
}

// countedAs returns the answer for which room was taken; nil when its connection was closed meanwhile.
func (s *Sender) countedAs(bytes int, principal *account) *unreadAnswer {
	one := &unreadAnswer{by: s, bytes: bytes, principal: principal, since: time.Now()}
	if s.address == nil {
		return one
	}
	s.peers.Unread.Bytes.Add(int64(bytes))
	one.late = time.AfterFunc(unreadTimeMax, one.close)
	if principal != nil {
		principal.note(one)
	}
	if !s.address.note(one) {
		one.give()
		return nil
	}
	return one
}

// note remembers an answer; it returns false when its connection is closed already.
func (a *account) note(one *unreadAnswer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a == one.by.address && one.by.gone {
		return false
	}
	a.answers = append(a.answers, one)
	return true
}

func (a *account) forgetAnswer(one *unreadAnswer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := slices.Index(a.answers, one); at >= 0 {
		a.answers = slices.Delete(a.answers, at, at+1)
	}
}

// makeRoom closes the connection that has not read an answer for longest, if that is longer than unreadTurnMax.
func (a *account) makeRoom() {
	if a == nil {
		return // a connection's own answers make room as it reads
	}
	a.mu.Lock()
	var oldest *unreadAnswer
	if len(a.answers) > 0 {
		oldest = a.answers[0]
	}
	a.mu.Unlock()
	if oldest != nil && time.Since(oldest.since) >= unreadTurnMax {
		oldest.close()
	}
}

// close closes the connection that has not read the answer.
func (u *unreadAnswer) close() { u.by.shut.Do(u.by.endUnread) }

func (s *Sender) endUnread() {
	s.peers.Unread.Closed.Add(1)
	s.address.mu.Lock()
	news := s.address.isNews(AnswersExpense, time.Now())
	s.address.mu.Unlock()
	s.tell(Held{Of: AnswersExpense, Closed: true, News: news}, s.address)
	s.end()
}

// give gives the room back, once: the answer was written to the connection, or never will be.
func (u *unreadAnswer) give() {
	u.once.Do(func() {
		if s := u.by; s.address != nil {
			u.late.Stop()
			s.peers.Unread.Bytes.Add(-int64(u.bytes))
			s.address.forgetAnswer(u)
			if u.principal != nil {
				u.principal.forgetAnswer(u)
			}
		}
		giveRooms(u.by.rooms(u.bytes, u.principal))
	})
}

// giveAnswers gives back the room of all answers that a closed connection has not read, because gRPC may never report
// them.
func (s *Sender) giveAnswers() {
	s.address.mu.Lock()
	var its []*unreadAnswer
	for _, one := range s.address.answers {
		if one.by == s {
			its = append(its, one)
		}
	}
	s.address.mu.Unlock()
	for _, one := range its {
		one.give()
	}
}

// Answer makes an answer and takes room for it until read is called, when the answer was written to its connection. If
// there is no room, the answer is thrown away and made again when it is the connection's turn. If making it changes
// something (looks is false), it is small, and waits for nothing.
func Answer[A any](ctx context.Context, by *Sender, looks bool, size func(A) int, answerNow func() (A, error)) (answer A, read func(), err error) {
	var none A
	var taken *unreadAnswer
	read = func() {}
	began := time.Now()
	waiting, cancel := context.WithTimeout(ctx, callWaitMax)
	defer cancel()
	for {
		made, err := makeWithin(taken, answerNow)
		bytes := size(made)
		switch {
		case err != nil:
			return none, read, err
		case taken != nil && bytes <= taken.bytes:
			by.tellUnread(time.Since(began))
			return made, taken.give, nil
		case taken == nil && (bytes <= unreadSmall || !looks):
			return made, read, nil
		case taken == nil:
			if taken = by.countUnread(bytes); taken != nil {
				return made, taken.give, nil
			}
		default: // it has grown
			taken.give()
		}
		// What was made is not needed any more: it is not in memory while the connection waits.
		if taken = by.awaitUnread(waiting, bytes); taken == nil {
			by.tellUnread(time.Since(began))
			if ctx.Err() != nil {
				return none, read, ctx.Err()
			}
			return none, read, tooMuchUnread("master.call")
		}
	}
}

// makeWithin makes an answer in the room that was taken for it. The room is given back if no answer is made.
func makeWithin[A any](taken *unreadAnswer, answerNow func() (A, error)) (answer A, err error) {
	made := false
	defer func() {
		if taken != nil && (!made || err != nil) {
			taken.give()
		}
	}()
	answer, err = answerNow()
	made = true
	return answer, err
}

func tooMuchUnread(op string) *api.Error {
	return api.E(op, api.Limit, "", fmt.Errorf(
		"this connection, its address or its principal has not read what it was answered before; read it, and come back in %v", callWaitMax)).RetryIn(callWaitMax)
}

// tellUnread reports that an answer has waited for room.
func (s *Sender) tellUnread(waited time.Duration) {
	if s.address == nil {
		return
	}
	s.address.mu.Lock()
	news := s.address.isNews(AnswersExpense, time.Now())
	s.address.mu.Unlock()
	s.tell(Held{Of: AnswersExpense, Wait: waited, News: news}, s.address)
}

// OnlyLooks reports whether a method only reads, by its name.
func OnlyLooks(method string) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	return slices.ContainsFunc([]string{"Get", "List", "Explain", "StateHash", "WhoAmI", "CanI"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// messageBytes returns the size of an answer in gRPC.
func messageBytes(answer any) int {
	message, _ := answer.(proto.Message)
	return proto.Size(message)
}

// sendAnswer sends the answer of a call. It calls read when the answer was written or never will be.
func sendAnswer(stream grpc.ServerStream, answer any, read func()) error {
	message, is := answer.(proto.Message)
	if !is || proto.Size(message) <= unreadSmall {
		read()
		return stream.SendMsg(answer)
	}
	err := stream.SendMsg(&wire.Lent{Message: message, Back: read})
	if err != nil {
		read()
	}
	return err
}

// Counted returns a stream of many answers to one request. Each answer waits for room like that of a call, for as long
// as a peer may take to read.
func Counted(stream grpc.ServerStream) grpc.ServerStream {
	return countedStream{stream, SenderOf(stream.Context())}
}

type countedStream struct {
	grpc.ServerStream
	by *Sender
}

var errReadNothing = errors.New("nothing was read for " + unreadTimeMax.String() + "; come back")

// SendMsg waits for room, then sends. A lent message is bounded by its lender.
func (c countedStream) SendMsg(m any) error {
	message, is := m.(proto.Message)
	if !is {
		return c.ServerStream.SendMsg(m)
	}
	bytes := proto.Size(message)
	if bytes <= unreadSmall {
		return c.ServerStream.SendMsg(m)
	}
	taken := c.by.countUnread(bytes)
	if taken == nil {
		ctx, cancel := context.WithTimeout(c.Context(), unreadTimeMax)
		defer cancel()
		if taken = c.by.awaitUnread(ctx, bytes); taken == nil {
			if err := c.Context().Err(); err != nil {
				return err
			}
			return wire.Status(api.E("master.stream", api.Limit, "", errReadNothing))
		}
	}
	return sendAnswer(c.ServerStream, message, taken.give)
}
