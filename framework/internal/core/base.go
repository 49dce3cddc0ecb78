package core

import (
	"math/rand/v2"
	"time"
)

// base is what the rooms of a core stand on: its settings, the event at hand, and where its effects go. It decides
// nothing.
type base struct {
	config  Config
	now     time.Time // of the event at hand
	chance  uint64    // what is left of its random number
	effects []Effect  // of the event at hand; between steps only its room counts
}

// effectsKept bounds the room for effects that is used again.
const effectsKept = 1024

// take makes an event the one at hand.
func (b *base) take(event Event) {
	if b.effects = b.effects[:0]; cap(b.effects) > effectsKept {
		b.effects = nil
	}
	b.now, b.chance = event.At, event.Chance
}

func (b *base) emit(effect Effect) { b.effects = append(b.effects, effect) }

// count emits what is counted, if anybody counts.
func (b *base) count(n int, effect Count) {
	if b.config.Counts && n > 0 {
		b.emit(effect)
	}
}

func (b *base) countAnswers(end OfferEnd, n int) { b.count(n, CountAnswers{End: end, Offers: n}) }

func (b *base) log(level Level, message string, fields ...Field) {
	b.emit(Log{Level: level, Message: message, Fields: fields})
}

// random makes random numbers of what came with the event.
func (b *base) random() *rand.Rand {
	b.chance++
	return rand.New(rand.NewPCG(b.chance, 0))
}

// wants reports whether the scheduler takes that callback.
func (b *base) wants(interest Interests) bool { return b.config.Interests&interest != 0 }
