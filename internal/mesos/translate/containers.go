package translate

import mesosv1 "github.com/tenderhq/tender/internal/mesos/v1"

var errExecutorImage = unsupported("an image for an executor of one's own")

// CheckContainer reports what the container of a task asks for that has no equivalent; nil: all of it works.
func CheckContainer(container *mesosv1.ContainerInfo) error { return checkContainer(container) }

// CheckExecutorContainer does the same for the container of an executor of a framework's own.
func CheckExecutorContainer(container *mesosv1.ContainerInfo) error {
	if containerImage(container) != "" {
		return errExecutorImage
	}
	return checkContainer(container)
}
