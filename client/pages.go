package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/tenderhq/tender/api"
)

// Page is what all lists have in common.
type Page[Item any] interface {
	GetItems() []Item
	GetNextPageToken() string
}

// All reads the pages of a list to its end, or to limit items if limit > 0. It returns the items, and whether there are
// more.
func All[Request any, Item any, Response Page[Item]](
	ctx context.Context,
	list func(context.Context, Request, ...grpc.CallOption) (Response, error),
	limit int,
	request func(pageToken string, limit int32) Request,
) (items []Item, more bool, err error) {
	token := ""
	for {
		size := 0 // as many as a page holds
		if limit > 0 {
			size = min(limit-len(items), api.PageItemsMax)
		}
		page, err := list(ctx, request(token, int32(size)))
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
