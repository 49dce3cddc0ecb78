package trust

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tenderhq/tender/api"
)

// bearer is the HTTP authorization scheme for tickets.
const bearer = "Bearer "

// ShowTicket adds a ticket of the leader to a request; "" adds none.
func ShowTicket(r *http.Request, ticket string) {
	if ticket != "" {
		r.Header.Set("Authorization", bearer+ticket)
	}
}

// TicketOf returns the ticket that a request shows, or why there is none.
func TicketOf(r *http.Request) (string, error) {
	ticket, shown := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
	if !shown || ticket == "" {
		return "", api.E("ticket", api.Denied, "", errors.New(
			"it takes a ticket of the leader, which 'tender logs', 'files', 'cp' and 'exec' bring along; this request shows none"))
	}
	return ticket, nil
}
