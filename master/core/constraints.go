package core

// checkConstraint reports why an expression can't be used; "" is none and fine.
func (c *Core) checkConstraint(expression string) error {
	if expression == "" {
		return nil
	}
	_, err := c.config.Compile(expression)
	return err
}
