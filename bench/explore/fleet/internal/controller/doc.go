// Package controller has the reconcilers of an operator on controller-runtime, which the laboratory
// explores unchanged.
package controller
