package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// concerns is a plugin with the resources it looks at.
type concerns struct {
	admission.Interface
	of []schema.GroupResource
}

func (c *concerns) looksAt(a admission.Attributes) bool {
	res := a.GetResource()
	for i := range c.of {
		if c.of[i].Resource == res.Resource && c.of[i].Group == res.Group {
			return true
		}
	}
	return false
}

type mutating struct {
	concerns
	plugin admission.MutationInterface
}

func (m *mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !m.looksAt(a) {
		return nil
	}
	return m.plugin.Admit(ctx, a, o)
}

type validating struct {
	concerns
	plugin admission.ValidationInterface
}

func (v *validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !v.looksAt(a) {
		return nil
	}
	return v.plugin.Validate(ctx, a, o)
}

type both struct {
	mutating
	validating
}

func (b *both) Handles(op admission.Operation) bool { return b.mutating.Handles(op) }
