package intake

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenderhq/tender/allocator/constraint"
	"github.com/tenderhq/tender/api"
	"github.com/tenderhq/tender/internal/protocol"
)

const (
	// programsMax and programBytesMax bound the constraints that are kept with their programs, in number and in bytes
	// of text. When there are more, the oldest is forgotten.
	programsMax     = 4096
	programBytesMax = 512 << 10
)

// Programs compiles constraints, each only once while it is kept. The readers of streams compile them before the loop
// needs them, because one constraint takes up to about 50 ms. A sender that keeps stating new constraints is held for
// that.
type Programs struct {
	// compiling has one place: one reader compiles at a time, so that many readers can't take all processors.
	// Connections take turns.
	compiling *Budget

	mu    sync.Mutex
	texts map[string]compiled // guarded by mu
	order []string            // oldest first; guarded by mu
	bytes int                 // guarded by mu
}

type compiled struct {
	program *constraint.Program
	err     error
}

// NewPrograms returns one without any constraints.
func NewPrograms() *Programs {
	return &Programs{compiling: NewBudget(1), texts: make(map[string]compiled)}
}

// Compile is constraint.Compile with a memory.
func (p *Programs) Compile(text string) (*constraint.Program, error) {
	if len(text) > constraint.BytesMax {
		return constraint.Compile(text) // refuses it
	}
	if known, ok := p.known(text); ok {
		return known.program, known.err
	}
	program, err := constraint.Compile(text)
	p.keep(text, compiled{program, err})
	return program, err
}

func (p *Programs) known(text string) (compiled, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.texts[text]
	return known, ok
}

func (p *Programs) keep(text string, one compiled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.texts[text]; ok {
		return
	}
	p.texts[text], p.order = one, append(p.order, text)
	p.bytes += len(text)
	for len(p.order) > programsMax || p.bytes > programBytesMax {
		delete(p.texts, p.order[0])
		p.bytes -= len(p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
}

// Prepare compiles the constraints that the loop will need for these calls.
func (p *Programs) Prepare(ctx context.Context, by *Sender, calls []protocol.NumberedCall) {
	for _, call := range calls {
		switch call := call.Call.(type) {
		case protocol.Subscribe:
			p.prepareOne(ctx, by, call.Framework.Constraint)
		case protocol.UpdateFramework:
			p.prepareOne(ctx, by, call.Framework.Constraint)
		case protocol.SetDemand:
			for _, shape := range call.Shapes[:min(len(call.Shapes), api.DemandsPerRoleMax)] {
				p.prepareOne(ctx, by, shape.Constraint)
			}
		default: // other calls have no constraints
		}
	}
}

func (p *Programs) prepareOne(ctx context.Context, by *Sender, text string) {
	if text == "" || len(text) > constraint.BytesMax {
		return
	}
	if _, ok := p.known(text); ok {
		return
	}
	if !p.compiling.Take(ctx, nil, by, 1) {
		return
	}
	began := time.Now()
	_, _ = p.Compile(text) // an error is kept too
	took := time.Since(began)
	p.compiling.Give(1)
	by.Pay(ctx, CompileExpense, float64(took))
}
