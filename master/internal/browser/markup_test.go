package browser

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// hostile is a text that would end elements and begin others, were it not escaped.
const hostile = `"'></td></title></style><script>alert(1)</script><!-- &amp; `

// TestPagesShowTextsAsTexts: what agents, frameworks and people have named stands in the pages as a text, whatever is in it.
func TestPagesShowTextsAsTexts(t *testing.T) {
	pages := map[string]page{
		"login": loginPage{Error: hostile},
		"cluster": clusterPage{
			Who: hostile, Until: hostile, Summary: []field{{hostile, hostile}},
			Tables: []table{
				{Title: hostile, Method: "ListTasks", Columns: []string{hostile}, Rows: [][]string{{hostile, "plain"}}, More: true},
				{Title: "Agents", Method: "ListAgents", Error: hostile},
				{Title: "None", Method: "ListFrameworks"},
			},
			Links: []string{"ListTasks"},
		},
	}
	seen := map[string]int{"login": 1, "cluster": 8}
	for name, page := range pages {
		var m markup
		page.write(&m)
		document, err := html.Parse(strings.NewReader(m.page.String()))
		if err != nil {
			t.Fatal(err)
		}
		elements, texts := contents(document)
		for _, never := range []string{"script", "#comment"} {
			if slices.Contains(elements, never) {
				t.Errorf("the page %s has a %s of a text that others have said:\n%s", name, never, m.page.String())
			}
		}
		if got := strings.Count(strings.Join(texts, "\n"), hostile); got != seen[name] {
			t.Errorf("the page %s shows the text %d times instead of %d:\n%s", name, got, seen[name], m.page.String())
		}
		if !slices.Contains(texts, style) {
			t.Errorf("the page %s has not the style whose digest its headers name", name)
		}
	}
}

// contents are the names of a document's elements, and its texts.
func contents(document *html.Node) (elements, texts []string) {
	for node := range document.Descendants() {
		switch node.Type {
		case html.ElementNode:
			elements = append(elements, node.Data)
		case html.CommentNode:
			elements = append(elements, "#comment")
		case html.TextNode:
			texts = append(texts, node.Data)
		default:
		}
	}
	return elements, texts
}
