package core

// field makes one field of a log line; any identifier will do.
func field[S ~string](name string, value S) Field { return Field{name, string(value)} }

// info reports a decision.
func (b *base) info(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields})
}

// warn reports what an operator should look at.
func (b *base) warn(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields, Warn: true})
}

// debug reports a decision of every day. Callers ask for Config.Debug first: the
// fields cost more than the decision.
func (b *base) debug(message string, fields ...Field) {
	b.emit(Log{Message: message, Fields: fields, Debug: true})
}
