package plugins

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// scoped is a plugin that is called only for certain resources.
type scoped struct {
	admission.Interface
	resources []schema.GroupResource
}

func (c *scoped) handlesResource(a admission.Attributes) bool {
	res := a.GetResource()
	for i := range c.resources {
		if c.resources[i].Resource == res.Resource && c.resources[i].Group == res.Group {
			return true
		}
	}
	return false
}

type mutating struct {
	scoped
	plugin admission.MutationInterface
}

func (m *mutating) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !m.handlesResource(a) {
		return nil
	}
	return m.plugin.Admit(ctx, a, o)
}

type validating struct {
	scoped
	plugin admission.ValidationInterface
}

func (v *validating) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if !v.handlesResource(a) {
		return nil
	}
	return v.plugin.Validate(ctx, a, o)
}

type both struct {
	mutating
	validating
}

func (b *both) Handles(op admission.Operation) bool { return b.mutating.Handles(op) }
