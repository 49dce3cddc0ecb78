package translate

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"
)

// writeTag returns the tag of a reservation that says of itself what a framework has said: its principal and labels, such
// as "@ann&id~7". Labels have no order.
func writeTag(principal *string, labels *mesosv1.Labels) string {
	var parts []string
	for _, label := range labels.GetLabels() {
		part := escapeTag(label.GetKey())
		if label.Value != nil {
			part += "~" + escapeTag(label.GetValue())
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	if principal != nil {
		parts = slices.Insert(parts, 0, "@"+escapeTag(*principal))
	}
	return strings.Join(parts, "&")
}

func escapeTag(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "~", "%7E") }

// readTag is the inverse of writeTag. A tag that an operator has made is a label without a value.
func readTag(tag string) (principal *string, labels *mesosv1.Labels) {
	for part := range strings.SplitSeq(tag, "&") {
		name, isPrincipal := strings.CutPrefix(part, "@")
		key, value, valued := strings.Cut(part, "~")
		switch {
		case part == "":
		case isPrincipal:
			principal = ptr(unescapeTag(name))
		default:
			label := &mesosv1.Label{Key: ptr(unescapeTag(key))}
			if valued {
				label.Value = ptr(unescapeTag(value))
			}
			if labels == nil {
				labels = new(mesosv1.Labels)
			}
			labels.Labels = append(labels.Labels, label)
		}
	}
	return principal, labels
}

func unescapeTag(text string) string {
	plain, err := url.QueryUnescape(text)
	if err != nil { // it was not written here
		return text
	}
	return plain
}

// TagOf returns the tag of the reservation of a resource; "" if it has none.
func TagOf(r *mesosv1.Resource) string {
	if reservation := ReservationOf(r); reservation != nil {
		return writeTag(reservation.Principal, reservation.GetLabels())
	}
	return ""
}

// ReservationOf returns the reservation of a resource in the newer format, whichever it is in; nil if it has none that is
// dynamic. Of a refined one it is the last.
func ReservationOf(r *mesosv1.Resource) *mesosv1.Resource_ReservationInfo {
	if stack := r.GetReservations(); len(stack) > 0 {
		if last := stack[len(stack)-1]; last.GetType() == mesosv1.Resource_ReservationInfo_DYNAMIC {
			return last
		}
		return nil
	}
	old := r.GetReservation()
	if old == nil {
		return nil
	}
	return &mesosv1.Resource_ReservationInfo{
		Type: mesosv1.Resource_ReservationInfo_DYNAMIC.Enum(), Role: ptr(cmp.Or(r.GetRole(), DefaultRole)), Principal: old.Principal, Labels: old.GetLabels(),
	}
}
