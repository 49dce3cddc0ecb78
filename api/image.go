package api

import (
	"fmt"
	"strings"
)

// imageBytesMax bounds the reference of an image.
const imageBytesMax = 512

// imageWord holds the characters that the reference of an image may consist of.
const imageWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/:@+[]"

// checkImage checks only the form of a reference. Whether there is such an image, the agent finds out.
func (t *Task) checkImage() error {
	const example = "write one such as docker.io/library/alpine:3.20"
	image := t.Image
	switch {
	case image == "":
		return nil
	case t.Executor != nil:
		return fmt.Errorf("image %.100q is for tasks that the built-in executor runs; executor %s has its own program", image, t.Executor.ID)
	case len(image) > imageBytesMax:
		return fmt.Errorf("the image's reference has %d bytes, at most %d are allowed", len(image), imageBytesMax)
	case strings.Contains(image, "://"):
		return fmt.Errorf("image %.100q begins with a scheme, and references have none; %s", image, example)
	case strings.ContainsFunc(image, func(r rune) bool { return !strings.ContainsRune(imageWord, r) }),
		strings.HasPrefix(image, "-"), strings.HasPrefix(image, "/"):
		return fmt.Errorf("image %.100q is no reference; %s", image, example)
	}
	return nil
}
