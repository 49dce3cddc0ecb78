package core

import (
	"math/rand/v2"
	"time"
)

// base is what all rooms of a core share: the settings, the current event, and the list of effects. It decides nothing.
type base struct {
	config  Config
	now     time.Time // time of the current event
	chance  uint64    // source of random numbers, from the current event
	effects []Effect  // effects of the current event; between steps only the memory of the list is used again
}

// effectsKept bounds the length of the list of effects whose memory is used again.
const effectsKept = 1024

// take makes an event the current one.
func (b *base) take(event Event) {
	if b.effects = b.effects[:0]; cap(b.effects) > effectsKept {
		b.effects = nil
	}
	b.now, b.chance = event.At, event.Chance
}

func (b *base) emit(effect Effect) { b.effects = append(b.effects, effect) }

// count emits the effect, if anybody counts and n is not 0.
func (b *base) count(n int, effect Count) {
	if b.config.Counts && n > 0 {
		b.emit(effect)
	}
}

func (b *base) countAnswers(end OfferEnd, n int) { b.count(n, CountAnswers{End: end, Offers: n}) }

func (b *base) log(level Level, message string, fields ...Field) {
	b.emit(Log{Level: level, Message: message, Fields: fields})
}

// random returns a source of random numbers that is seeded by the event.
func (b *base) random() *rand.Rand {
	b.chance++
	return rand.New(rand.NewPCG(b.chance, 0))
}

// wants reports whether the scheduler takes that callback.
func (b *base) wants(interest Interests) bool { return b.config.Interests&interest != 0 }
