// Package top shows a cluster on a terminal as it is, twice a second: agents, roles, frameworks, jobs and tasks in
// tables that can be sorted and searched, and of each thing what other commands say of it. It keeps a copy of the state
// by what the masters tell; it changes nothing, and lists nothing again and again.
package top

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tenderhq/tender/client"
	"github.com/tenderhq/tender/internal/wire"
	"github.com/tenderhq/tender/tender/internal/cli/nouns"
	"github.com/tenderhq/tender/tender/internal/cli/settings"
)

// Config says what is shown.
type Config struct {
	// Dial returns a client that calls waiting with why it hears nothing at the moment. It is closed at the end.
	Dial func(waiting func(error)) (*client.Client, error)
	// Kind is the table that is shown first: one of Kinds. Sort is the title of the column by which it is sorted, in
	// whatever case; "": the first one. Only rows are shown that have the text Filter in a cell.
	Kind         nouns.Kind
	Sort, Filter string
	Now          func() time.Time
	// Look runs another command of tender, such as "describe agent agent-1", and returns what it has written.
	Look func(ctx context.Context, args ...string) string
}

// Kinds are the kinds that can be shown, in the order of their tables.
func Kinds() []nouns.Kind {
	return []nouns.Kind{nouns.Agents, nouns.Roles, nouns.Frameworks, nouns.Jobs, nouns.Tasks}
}

// Check says what is wrong with what is to be shown, or returns nil.
func (config Config) Check() error {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	if !slices.Contains(names, config.Kind.Name) {
		return settings.Unknown("kind", config.Kind.Name, names)
	}
	if header := config.Kind.Header(true); config.Sort != "" && !slices.Contains(header, strings.ToUpper(config.Sort)) {
		return settings.Unknown("column of "+config.Kind.Name, config.Sort, header)
	}
	return nil
}

// frameEvery is the time from one frame to the next, if no key is pressed.
const frameEvery = 500 * time.Millisecond

// Run shows the cluster on a terminal until its user ends it or ctx ends.
func Run(ctx context.Context, config Config, in io.Reader, out io.Writer) error {
	return config.run(ctx, func(ctx context.Context, m *model) error {
		if _, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run(); err != nil {
			return err
		}
		return m.heard.err
	})
}

// Once writes one frame as text, with all rows of the table.
func Once(ctx context.Context, config Config, out io.Writer) error {
	return config.run(ctx, func(ctx context.Context, m *model) error {
		if err := m.await(ctx); err != nil {
			return err
		}
		_, err := io.WriteString(out, strings.Join(m.all(), "\n")+"\n")
		return err
	})
}

// JSON writes everything that the tables have, by kind, as 'tender get' writes it.
func JSON(ctx context.Context, config Config, out io.Writer) error {
	return config.run(ctx, func(ctx context.Context, m *model) error {
		if err := m.await(ctx); err != nil {
			return err
		}
		all := make(map[string][]json.RawMessage)
		for _, t := range m.tables {
			all[t.kind.Name] = make([]json.RawMessage, len(t.order))
			for i, r := range t.order {
				var err error
				if all[t.kind.Name][i], err = wire.JSON(r.item.Message); err != nil {
					return err
				}
			}
		}
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	})
}

// run hears what changes while show runs.
func (config Config) run(ctx context.Context, show func(context.Context, *model) error) (err error) {
	f := newFeed()
	m := newModel(ctx, config, f)
	c, err := config.Dial(f.waiting)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	m.ctx = ctx
	var beside sync.WaitGroup
	beside.Go(func() { f.keep(ctx, c) })
	defer func() {
		end()
		beside.Wait()
		if failed := c.Close(); err == nil {
			err = failed
		}
	}()
	return show(ctx, m)
}

// await hears until everything that there is was heard, or no master tells it.
func (m *model) await(ctx context.Context) error {
	for {
		m.hear()
		switch {
		case m.heard.err != nil:
			return m.heard.err
		case m.heard.waits != nil:
			return m.heard.waits
		case m.whole():
			return nil
		}
		select {
		case <-m.feed.told:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
