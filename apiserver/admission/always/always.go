// Package always implements the admission plugins AlwaysAdmit, which does nothing, and AlwaysDeny,
// which rejects all writes.
package always

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/admission"
)

// Admit is AlwaysAdmit. It handles no operations, so the chain never calls it.
type Admit struct{}

// Handles returns false for all operations.
func (Admit) Handles(admission.Operation) bool { return false }

// Deny is AlwaysDeny.
type Deny struct{}

var (
	_ admission.MutationInterface   = Deny{}
	_ admission.ValidationInterface = Deny{}
)

// Handles returns true for all operations.
func (Deny) Handles(admission.Operation) bool { return true }

// Admit rejects the request.
func (Deny) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errors.New("admission control is denying all modifications"))
}

// Validate rejects the request.
func (d Deny) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return d.Admit(ctx, a, o)
}
