package web

import (
	"net/http"
	"strings"

	"github.com/tenderhq/tender/internal/words"
)

// foundMax is how many things of each kind a search shows.
const foundMax = 50

// search looks for what has the words in its name, among everything that the person may see.
func (s *Server) search(r *http.Request) (page, error) {
	wanted := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("q")))
	one, err := look(r.Context())
	if err != nil {
		return page{}, err
	}
	found := table{
		columns: []string{"Kind", "Name", "Is", "Where"},
		empty:   "Nothing has this in its name. What has ended is not searched here.", next: "tender get tasks --all " + words.Quote(wanted),
	}
	counts := map[string]int{}
	add := func(kind string, shown func() (href, is, where string), names ...string) {
		for _, name := range names {
			if wanted == "" || !strings.Contains(strings.ToLower(name), wanted) {
				continue
			}
			if counts[kind]++; counts[kind] <= foundMax {
				href, is, where := shown()
				found.rows = append(found.rows, row{href, []cell{text(kind), to(names[0], href), text(is), text(where)}})
			}
			return
		}
	}
	for _, a := range one.agents {
		add("agent", func() (string, string, string) {
			how, _ := condition(a)
			return agentPath(a.GetId()), how, a.GetHostname()
		}, a.GetId(), a.GetHostname(), a.GetAddress())
	}
	for _, f := range one.frameworks {
		add("framework", func() (string, string, string) {
			return frameworkPath(f.GetId()), f.GetState(), strings.Join(f.GetRoles(), " ")
		}, f.GetId(), f.GetName())
	}
	for _, t := range one.tasks() {
		names := []string{t.GetId(), t.GetName()}
		if strings.Contains(wanted, "/") {
			names = []string{t.GetFrameworkName() + "/" + t.GetId(), t.GetFrameworkId() + "/" + t.GetId()}
		}
		add("task", func() (string, string, string) {
			return taskPath(t), t.GetState(), t.GetFrameworkName() + ", " + t.GetHostname()
		}, names...)
	}
	return page{
		title: "Search", command: "tender get tasks " + words.Quote(wanted),
		blocks: []block{{
			key: "found", title: "What has " + words.Quote(wanted) + " in its name", wide: true, body: listView(found, filter{"/search", wanted, "Search everything for"}),
		}},
	}, nil
}
