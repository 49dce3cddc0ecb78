package client

import (
	"cmp"
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/wire"
)

// ForPage is what all requests for a page of a list have in common.
type ForPage interface {
	proto.Message
	GetPageToken() string
	GetLimit() int32
}

// Page is what all lists have in common.
type Page[Item any] interface {
	GetItems() []Item
	GetNextPageToken() string
}

// All reads the pages of a list to its end, or to limit items if limit > 0. Each page is asked for by a copy of the request,
// with the token and the limit of that page. It returns the items, and whether there are more.
func All[Request ForPage, Item any, Response Page[Item]](
	ctx context.Context,
	list func(context.Context, Request, ...grpc.CallOption) (Response, error),
	limit int,
	request Request,
) (items []Item, more bool, err error) {
	for token := ""; ; {
		size := api.PageItemsMax
		if limit > 0 {
			size = min(size, limit-len(items))
		}
		page, err := list(ctx, forPage(request, token, int32(size)))
		if err != nil {
			return items, false, err
		}
		items = append(items, page.GetItems()...)
		token = page.GetNextPageToken()
		switch {
		case token == "":
			return items, false, nil
		case limit > 0 && len(items) >= limit:
			return items, true, nil
		}
	}
}

// Reported is a page of a list of what agents report, as are tasks and executors.
type Reported[Item any] interface {
	Page[Item]
	GetIncomplete() *apiv1.Error
}

// AllReported is [All] for such a list. While agents have not reported to the leader it returns what is known, and an
// error of kind [api.Unavailable] that says so: what is missed may be there all the same.
func AllReported[Request ForPage, Item any, Response Reported[Item]](
	ctx context.Context,
	list func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (items []Item, err error) {
	var notYet error
	items, _, err = All(ctx, func(ctx context.Context, r Request, options ...grpc.CallOption) (Response, error) {
		page, err := list(ctx, r, options...)
		if told := wire.ErrorFromProto(page.GetIncomplete()); told != nil {
			notYet = told
		}
		return page, err
	}, 0, request)
	return items, cmp.Or(err, notYet)
}

func forPage[Request ForPage](request Request, token string, limit int32) Request {
	request = proto.CloneOf(request)
	message := request.ProtoReflect()
	fields := message.Descriptor().Fields()
	message.Set(fields.ByName("page_token"), protoreflect.ValueOfString(token))
	message.Set(fields.ByName("limit"), protoreflect.ValueOfInt32(limit))
	return request
}

// ReadInto reads the pages of a list to its end into a variable.
func ReadInto[Request ForPage, Item any, Response Page[Item]](
	ctx context.Context,
	into *[]Item,
	list func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (err error) {
	*into, _, err = All(ctx, list, 0, request)
	return err
}
