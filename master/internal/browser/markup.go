package browser

import (
	"html"
	"strconv"
	"strings"
)

// markup is a page that is being written. It is written by hand because html/template calls methods by names in its
// templates. With it in the program, the linker would have to keep every method of every type, which makes the program,
// and what each process keeps of it in memory, a seventh larger.
type markup struct{ page strings.Builder }

// ours is markup that this package has written. An untyped constant converts to it by itself, and a value of type
// string does not. So text of others gets into a page only through text, which escapes it.
type ours string

func (m *markup) add(part ours) { m.page.WriteString(string(part)) }

// text escapes the text and adds it, for the inside of elements.
func (m *markup) text(text string) { m.page.WriteString(html.EscapeString(text)) }

// within adds a text, escaped, between two parts of markup.
func (m *markup) within(before ours, text string, after ours) {
	m.add(before)
	m.text(text)
	m.add(after)
}

// document adds a page with the title, and with the style whose digest the headers name.
func (m *markup) document(title string, body func()) {
	m.within(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>`, title, "</title>\n<style>")
	m.add(ours(style))
	m.add("</style>\n</head>\n<body>\n")
	body()
	m.add("</body>\n</html>\n")
}

func (p loginPage) write(m *markup) {
	m.document("Log in - Tender", func() {
		m.add("<main class=\"login\">\n<h1>Tender</h1>\n")
		if p.Error != "" {
			m.within(`<p class="bad" role="alert">`, p.Error, "</p>\n")
		}
		m.add(`<form method="post" action="/login">
<label for="token">An operator's token</label>
<input id="token" name="token" type="password" autocomplete="off" spellcheck="false" required autofocus>
<button type="submit">Log in</button>
</form>
<p class="soft">An operator makes one: <code>tender token create operator --principal NAME --uses 1 --ttl 1h</code></p>
</main>
`)
	})
}

func (p clusterPage) write(m *markup) {
	m.document("Tender", func() {
		m.within("<header>\n<h1>Tender</h1>\n<span>", p.Who, ` <span class="soft">until `)
		m.within("", p.Until, `</span></span>
<form method="post" action="/logout"><button type="submit">Log out</button></form>
</header>
<main>
<dl>
`)
		for _, f := range p.Summary {
			m.within("<dt>", f.Name, "</dt>")
			m.within("<dd>", f.Value, "</dd>\n")
		}
		m.add("</dl>\n")
		for _, t := range p.Tables {
			t.write(m)
		}
		m.add("<section>\n<h2>More as JSON</h2>\n<p>")
		for _, method := range p.Links {
			m.link(method, method)
			m.add(" ")
		}
		m.add("</p>\n</section>\n</main>\n")
	})
}

// link adds a link to the JSON of a method. Names of methods need no escaping in an address.
func (m *markup) link(method, text string) {
	m.within(`<a href="/v1/`, method, `">`)
	m.within("", text, "</a>")
}

func (t table) write(m *markup) {
	m.within("<section>\n<h2>", t.Title, "</h2>\n")
	switch {
	case t.Error != "":
		m.within(`<p class="soft">`, t.Error, "</p>\n")
	case len(t.Rows) == 0:
		m.add("<p class=\"soft\">There are none.</p>\n")
	default:
		t.writeRows(m)
	}
	m.add(`<p class="soft">`)
	if t.More {
		m.within("These are the first ", strconv.Itoa(len(t.Rows)), "; there are more. ")
	}
	m.link(t.Method, "As JSON")
	m.add("</p>\n</section>\n")
}

func (t table) writeRows(m *markup) {
	m.add("<div class=\"wide\"><table>\n<thead><tr>")
	for _, column := range t.Columns {
		m.within(`<th scope="col">`, column, "</th>")
	}
	m.add("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		m.add("<tr>")
		for _, cell := range row {
			m.within("<td>", cell, "</td>")
		}
		m.add("</tr>\n")
	}
	m.add("</tbody>\n</table></div>\n")
}
