package guard

import (
	"fmt"
	"strconv"

	"github.com/tenderhq/tender/api"
	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/internal/trust/audit"
	"github.com/tenderhq/tender/internal/wire"
)

// changesBytesMax bounds a page of changes. Most changes are short, but a page of the longest would exceed the size
// limit of a message.
const changesBytesMax = 512 << 10

// Changes returns a page of the changes that this master was asked to make, the newest first.
func (g *Guard) Changes(master api.MasterID, r *apiv1.ListChangesRequest) (*apiv1.ListChangesResponse, error) {
	query, err := queryOf(r)
	if err != nil {
		return nil, err
	}
	entries, more := g.recent.Select(query)
	answer := &apiv1.ListChangesResponse{MasterId: string(master), Since: wire.TimeToProto(g.recent.Since())}
	for i := range entries {
		answer.Items = append(answer.Items, showChange(master, &entries[i]))
	}
	if more {
		answer.NextPageToken = strconv.FormatUint(entries[len(entries)-1].Number, 10)
	}
	return answer, nil
}

// queryOf converts the request for a page to a query.
func queryOf(r *apiv1.ListChangesRequest) (q audit.Query, err error) {
	const op = "changes.list"
	q = audit.Query{By: r.GetBy(), Denied: r.GetDenied(), Limit: int(r.GetLimit()), Bytes: changesBytesMax}
	if q.Limit <= 0 || q.Limit > api.PageItemsMax {
		q.Limit = api.PageItemsMax
	}
	if token := r.GetPageToken(); token != "" {
		if q.Before, err = strconv.ParseUint(token, 10, 64); err != nil {
			return q, api.E(op, api.Invalid, "page_token", fmt.Errorf("%.40q is no token of a page", token))
		}
	}
	if q.Since, q.Until, err = wire.Span(op, r.GetSince(), r.GetUntil()); err != nil {
		return q, err
	}
	if q.On, err = audit.ParseObject(r.GetOn()); err != nil {
		return q, api.E(op, api.Invalid, "on", err)
	}
	return q, nil
}

func showChange(master api.MasterID, e *audit.Entry) *apiv1.ChangeView {
	view := &apiv1.ChangeView{
		At: wire.TimeToProto(e.At), Who: e.Who, From: e.From, Call: e.Call, Request: string(e.On), RequestCut: e.Cut, Result: e.Result, Why: e.Why,
		Index: e.Index, MasterId: string(master),
	}
	for _, object := range e.Objects {
		view.Objects = append(view.Objects, object.String())
	}
	return view
}
