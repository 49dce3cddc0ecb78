package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/tenderhq/tender/api/v1"
)

// TestAnEndIsToldOnce: what one leader has told last and the next one tells again comes once as an end, over as many
// streams as it takes (R65).
func TestAnEndIsToldOnce(t *testing.T) {
	of := func(term uint64, task, what string) *apiv1.Change {
		cursor := &apiv1.Cursor{Term: &apiv1.Term{Number: term}, Number: 1}
		return &apiv1.Change{Event: &apiv1.Event{Cursor: cursor, Kind: "task", Name: task, What: what, Heard: term > 1}}
	}
	told := tellers{
		{{Items: []*apiv1.Change{of(1, "f1/t1", "finished"), of(1, "f1/t2", "dropped"), of(1, "f1/t2", "launched")}}},
		{{Missed: "the last changes may be missing"}, {Items: []*apiv1.Change{of(2, "f1/t1", "finished"), of(2, "f1/t2", "dropped")}}},
	}
	var heard []string
	synctest.Test(t, func(t *testing.T) {
		for news, err := range WatchOver(t.Context(), &told, &apiv1.WatchRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range news.GetItems() {
				heard = append(heard, item.GetEvent().GetName()+" "+item.GetEvent().GetWhat())
			}
			if len(heard) == 5 {
				break
			}
		}
	})
	if want := []string{"f1/t1 finished", "f1/t2 dropped", "f1/t2 launched", "f1/t1 reported", "f1/t2 dropped"}; !slices.Equal(heard, want) {
		t.Errorf("heard is %q, want %q", heard, want)
	}
}

// tellers are masters, one after the other, and what each tells before its stream breaks.
type tellers [][]*apiv1.WatchResponse

func (t *tellers) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.ErrUnsupported
}

func (t *tellers) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	one := &teller{left: (*t)[0]}
	*t = (*t)[1:]
	return one, nil
}

type teller struct {
	grpc.ClientStream
	left []*apiv1.WatchResponse
}

func (*teller) SendMsg(any) error { return nil }
func (*teller) CloseSend() error  { return nil }

func (t *teller) RecvMsg(news any) error {
	if len(t.left) == 0 {
		return status.Error(codes.Unavailable, "its master was killed")
	}
	proto.Merge(news.(proto.Message), t.left[0])
	t.left = t.left[1:]
	return nil
}
