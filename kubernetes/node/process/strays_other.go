//go:build unix && !linux

package process

// endStrays does nothing: this system has neither control groups nor a user for each pod, so
// processes that leave their process group outlive the pod.
func (s *sandbox) endStrays() {}

// endMarked does nothing, because this system does not show environments in /proc.
func endMarked(string) {}
