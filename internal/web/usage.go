package web

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/tenderhq/tender/api/v1"
	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/words"
)

// usageBys are what one may tell usage apart by.
var usageBys = []string{"role", "principal", "framework", "job", "period"}

// usageSpans are for how long back one may ask.
var usageSpans = []string{"1h", "24h", "168h", "720h", "all"}

// usageAsked returns what the query of an address asks for: by=role&span=24h.
func (s *Server) usageAsked(query url.Values) (request *apiv1.ListUsageRequest, by []string, span string) {
	by, span = strings.Split(cmp.Or(query.Get("by"), "role"), ","), cmp.Or(query.Get("span"), "24h")
	request = &apiv1.ListUsageRequest{Limit: windowRows, PageToken: query.Get("page"), By: by, Until: untilOf(query)}
	if back, err := time.ParseDuration(span); err == nil {
		end := s.config.Clock()
		if request.GetUntil() != nil {
			end = request.GetUntil().AsTime()
		}
		request.Since = timestamppb.New(end.Add(-back))
	}
	return request, by, span
}

// usage says who has held and used how much, and how their tasks have ended.
func (s *Server) usage(r *http.Request) (page, error) {
	query := r.URL.Query()
	request, by, span := s.usageAsked(query)
	list, err := s.operator.ListUsage(r.Context(), request)
	if err != nil {
		return page{}, err
	}
	shown := table{more: further(r, list.GetNextPageToken()), empty: "Nobody has held anything in this time.", next: "tender run --name hello -- sleep 60"}
	named := slices.DeleteFunc(slices.Clone(by), func(one string) bool { return one == "period" }) // which two columns say anyway
	for _, one := range named {
		shown.columns = append(shown.columns, strings.ToUpper(one[:1])+one[1:])
	}
	shown.columns = append(shown.columns, "From", "Until", "cpu hours held", "really used", "GB hours held", "really used", "Tasks ended")
	for i, one := range list.GetItems() {
		cells := make([]cell, 0, len(shown.columns))
		for _, what := range named {
			cells = append(cells, text(usageName(one, what)))
		}
		held, used := one.GetAllocated(), one.GetUsed()
		begin, end := periodOf(one, s.config.Clock())
		cells = append(cells, since(begin), since(end), number(short(held["cpus"]/3600)), number(percent(used["cpus"], held["cpus"])),
			number(short(held["mem"]/1024/3600)), number(percent(used["mem"], held["mem"])), text(endedText(one.GetEnded())))
		shown.rows = append(shown.rows, row{fmt.Sprint(i), cells})
	}
	command := "tender usage --by " + words.Quote(strings.Join(by, ","))
	if request.GetSince() != nil {
		command += " --since " + words.Quote(span)
	}
	return page{
		title: "Usage", nav: "/usage", command: command,
		blocks: []block{{
			key: "list", title: "Who has held and used how much", note: "hour by hour; older days as a whole", wide: true, body: usageView(shown, strings.Join(by, ","), span),
			links: []link{{"take it away as a file", "/usage.csv?" + url.Values{"by": {strings.Join(by, ",")}, "span": {span}}.Encode()}},
		}},
	}, nil
}

// usageName returns the part of a row that says whose it is.
func usageName(one *apiv1.UsageView, by string) string {
	switch by {
	case "role":
		return one.GetRole()
	case "principal":
		return one.GetPrincipal()
	case "framework":
		return strings.TrimSpace(one.GetFrameworkName() + " " + one.GetFrameworkId())
	case "job":
		return cmp.Or(one.GetJob(), "none")
	case "period":
		return one.GetBegin().AsTime().UTC().Format("2006-01-02 15:04")
	}
	return ""
}

func endedText(ended map[string]uint64) string {
	parts := make([]string, 0, len(ended))
	for _, state := range slices.Sorted(maps.Keys(ended)) {
		parts = append(parts, fmt.Sprintf("%d %s", ended[state], state))
	}
	return strings.Join(parts, ", ")
}

// usageFile sends the same as a file for spreadsheets, with all rows and exact figures.
func (s *Server) usageFile(w http.ResponseWriter, r *http.Request) {
	request, by, _ := s.usageAsked(r.URL.Query())
	items, _, err := client.All(r.Context(), s.operator.ListUsage, 0, &apiv1.ListUsageRequest{By: by, Since: request.GetSince(), Until: request.GetUntil()})
	if err != nil {
		http.Error(w, sentenceOf(err), failed(err).code)
		return
	}
	kinds, states := map[string]bool{}, map[string]bool{}
	for _, one := range items {
		for kind := range one.GetAllocated() { // order: irrelevant because they are sorted below
			kinds[kind] = true
		}
		for state := range one.GetEnded() { // order: irrelevant because they are sorted below
			states[state] = true
		}
	}
	head := append(slices.Clone(by), "from", "until")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		head = append(head, kind+"_seconds_held", kind+"_seconds_used")
	}
	head = append(head, slices.Sorted(maps.Keys(states))...)
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
	file := csv.NewWriter(w)
	_ = file.Write(head) // whoever has gone reads nothing
	for _, one := range items {
		var line []string
		for _, what := range by {
			line = append(line, harmless(usageName(one, what)))
		}
		line = append(line, one.GetBegin().AsTime().Format(time.RFC3339), one.GetEnd().AsTime().Format(time.RFC3339))
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			line = append(line, fmt.Sprint(one.GetAllocated()[kind]), fmt.Sprint(one.GetUsed()[kind]))
		}
		for _, state := range slices.Sorted(maps.Keys(states)) {
			line = append(line, fmt.Sprint(one.GetEnded()[state]))
		}
		_ = file.Write(line)
	}
	file.Flush()
}

// harmless keeps a spreadsheet from taking a name for a formula.
func harmless(name string) string {
	if name != "" && strings.ContainsRune("=+-@\t\r", rune(name[0])) {
		return "'" + name
	}
	return name
}
