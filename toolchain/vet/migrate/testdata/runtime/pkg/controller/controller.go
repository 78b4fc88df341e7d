package controller

type TypedOptions[request comparable] struct {
	MaxConcurrentReconciles int
	UsePriorityQueue        *bool
}
