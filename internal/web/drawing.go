package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// units writes a length of a drawing.
func units(length float64) string { return strconv.FormatFloat(length, 'f', -1, 32) }

// viewBox is the room that the tiles of a group take.
func (g group) viewBox() string {
	rows := (g.count + g.columns - 1) / g.columns
	return fmt.Sprintf("0 0 %d %d", g.columns*step, rows*step)
}

// eventsOf is the address of the patches for a page; "": there are none. What fails only for now is tried again by them.
func eventsOf(p page, at *url.URL) string {
	if p.still || p.code != 0 && p.code != http.StatusTooManyRequests && p.code < http.StatusInternalServerError {
		return ""
	}
	return "/events?at=" + url.QueryEscape(at.RequestURI())
}

// does is the link to an action on a thing, which fields name: each with its value.
func does(name string, fields ...string) link {
	i := slices.IndexFunc(actions, func(a action) bool { return a.name == name })
	query := url.Values{}
	for at := 0; at < len(fields); at += 2 {
		query.Set(fields[at], fields[at+1])
	}
	return link{actions[i].title, "/do/" + name + "?" + query.Encode()}
}

// asksFor says whether people fill in the field.
func (a action) asksFor(field string) bool {
	return slices.ContainsFunc(a.fields, func(f input) bool { return f.name == field })
}

// tabindex keeps pictures of many agents out of the way of the keyboard; the list of agents has them too.
func (g group) tabindex() string {
	if len(g.tiles) > tilesNamedMax {
		return "-1"
	}
	return "0"
}

func cardClass(b block) string {
	if b.wide {
		return "card wide"
	}
	return "card"
}

// help says what keys do.
func (s *Server) help(*http.Request) (page, error) {
	keys := table{columns: []string{"Keys", "What they do"}}
	add := func(key, does string) {
		keys.rows = append(keys.rows, row{key, []cell{text(key), text(does)}})
	}
	add("/", "search everything")
	add("?", "this page")
	for _, section := range sections {
		add("g "+section.key, section.text)
	}
	add("Tab, Enter", "go through what can be followed, and follow it")
	return page{
		title: "Keys", nav: "/help", command: "tender help",
		blocks: []block{{key: "keys", title: "Keys", body: tableView(keys), wide: true}},
	}, nil
}
