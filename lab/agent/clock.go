package agent

import "kelson.dev/lab/agent/inside"

// Clock finds the time of the next timer in a bubble, so that the process of an operator can run
// until then without passing an event of the control plane.
type Clock = inside.Clock

// NewClock returns the clock of the bubble in which it is called. Its methods must be called while
// all other goroutines of the bubble are blocked, with GOMAXPROCS=1.
func NewClock() (*Clock, error) { return inside.NewClock() }
