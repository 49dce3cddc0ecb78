package work

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenderhq/tender/api"
)

// Want is a shape for which something waits in a role.
type Want struct {
	api.Shape     // its count is how many wait
	Role          api.Role
	Priority      int            // the highest of what waits
	Executor      api.ExecutorID // of the tasks, if it takes resources for itself, which are part of the shape's
	BesideRunning api.Resources  // what a task needs where its executor runs already
}

// Wants is what waits for offers, by shape, as the demand that the masters are told. It also knows in which roles they
// were told. The faces decide whose turn it is, because that depends on what they keep of each piece.
type Wants struct {
	byKey  map[string]*Want
	stated map[api.Role]bool // roles whose demand the masters know
}

// NewWants returns wants of which nothing was told.
func NewWants() Wants { return Wants{byKey: make(map[string]*Want), stated: make(map[api.Role]bool)} }

// Add counts what waits, as many as the want's count. Wants with the same key differ in nothing that an offer can tell.
func (w *Wants) Add(want Want) (key string) {
	key = strings.Join([]string{string(want.Role), want.Resources.String(), want.Constraint, want.Group, string(want.Executor)}, "\n")
	if len(want.Spread) > 0 {
		key += fmt.Sprint("\n", want.Spread)
	}
	before := w.byKey[key]
	if before == nil {
		w.byKey[key] = &want
		return key
	}
	before.Count += want.Count
	before.Priority = max(before.Priority, want.Priority)
	return key
}

// Remove counts what no longer waits.
func (w *Wants) Remove(key string, count int64) {
	if w.byKey[key].Count -= count; w.byKey[key].Count == 0 {
		delete(w.byKey, key)
	}
}

// In returns what waits in a role, the highest priority first.
func (w *Wants) In(role api.Role) (wants []Want) {
	var keys []string
	for key, want := range w.byKey { // order: irrelevant because they are sorted below
		if want.Role == role {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(w.byKey[b].Priority, w.byKey[a].Priority), cmp.Compare(a, b))
	})
	for _, key := range keys {
		wants = append(wants, *w.byKey[key])
	}
	return wants
}

// Restate notes that the masters may know the demand in a role otherwise than it is: it has changed, or they have reduced
// it by what was launched.
func (w *Wants) Restate(role api.Role) { delete(w.stated, role) }

// RestateAll does so for all roles.
func (w *Wants) RestateAll() { clear(w.stated) }

// Unstated returns in which of the roles the demand has to be stated, and takes it for stated there.
func (w *Wants) Unstated(roles []api.Role) (unstated []api.Role) {
	for _, role := range roles {
		if !w.stated[role] {
			w.stated[role] = true
			unstated = append(unstated, role)
		}
	}
	return unstated
}

// Stateable returns the first of the shapes, as many as masters accept in a demand.
func Stateable(shapes []api.Shape) []api.Shape {
	constraints := 0
	for i, shape := range shapes {
		if constraints += len(shape.Constraint); i == api.DemandsPerRoleMax || constraints > api.ConstraintBytesPerDemandMax {
			return shapes[:i]
		}
	}
	return shapes
}
