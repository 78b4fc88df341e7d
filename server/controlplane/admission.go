package controlplane

import (
	"k8s.io/apiserver/pkg/admission"

	"kelson.dev/server/admission/lifecycle"
)

// Admission says which plugins look at what is written.
type Admission struct{}

// newAdmission makes the chain of plugins, in Kubernetes' order.
func (p *ControlPlane) newAdmission(Config) (admission.Interface, error) {
	return admission.NewChainHandler(lifecycle.New(p.store)), nil
}
