package core

import (
	"github.com/tenderhq/tender/allocator/constraint"
)

// checkConstraint reports why an expression can't be used; "" is none and fine.
func checkConstraint(expression string) error {
	if expression == "" {
		return nil
	}
	_, err := constraint.Compile(expression)
	return err
}
