//go:build unix && !linux

package process

// withholdDescriptors makes sure that processes started from now on inherit none of this process's
// file descriptors. Go sets the close-on-exec flag of the descriptors that it opens, but not of
// those that this process inherited.
func withholdDescriptors() error { return markDescriptors("/dev/fd") }
