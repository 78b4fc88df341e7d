package cluster

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/client"
)

func (w wrapped) Status() crclient.SubResourceWriter { return w.SubResource("status") }

func (w wrapped) SubResource(name string) crclient.SubResourceClient {
	return subresource{w, w.c.Subresource(name)}
}

type subresource struct {
	w wrapped
	s client.SubresourceWriter
}

func (s subresource) Get(ctx context.Context, obj, into crclient.Object, _ ...crclient.SubResourceGetOption) error {
	return s.s.Get(ctx, obj, into)
}

func (s subresource) Create(ctx context.Context, obj, body crclient.Object,
	opts ...crclient.SubResourceCreateOption) error {
	o := (&crclient.SubResourceCreateOptions{}).ApplyOptions(opts)
	named(body, obj)
	return s.s.Create(ctx, obj, body, client.WriteOptions{DryRun: dryRun(o.DryRun), FieldOwner: o.FieldManager,
		FieldValidation: o.FieldValidation})
}

func (s subresource) Update(ctx context.Context, obj crclient.Object, opts ...crclient.SubResourceUpdateOption) error {
	o := (&crclient.SubResourceUpdateOptions{}).ApplyOptions(opts)
	var body runtime.Object
	if o.SubResourceBody != nil {
		named(o.SubResourceBody, obj)
		body = o.SubResourceBody
	}
	return s.s.Update(ctx, obj, body, client.WriteOptions{DryRun: dryRun(o.DryRun), FieldOwner: o.FieldManager,
		FieldValidation: o.FieldValidation})
}

// named gives a body the name and namespace of its object unless it has its own, as
// controller-runtime does.
func named(body, obj crclient.Object) {
	if body.GetName() == "" {
		body.SetName(obj.GetName())
	}
	if body.GetNamespace() == "" {
		body.SetNamespace(obj.GetNamespace())
	}
}

func (s subresource) Patch(ctx context.Context, obj crclient.Object, p crclient.Patch,
	opts ...crclient.SubResourcePatchOption) error {
	o := (&crclient.SubResourcePatchOptions{}).ApplyOptions(opts)
	if err := s.w.checkOwner(p.Type(), o.FieldManager); err != nil {
		return err
	}
	if o.SubResourceBody == nil {
		return s.s.Patch(ctx, obj, patch{p}, patchOptions(p, &o.PatchOptions))
	}
	data, err := p.Data(o.SubResourceBody)
	if err != nil {
		return err
	}
	write := patchOptions(p, &o.PatchOptions)
	write.Answer = o.SubResourceBody
	return s.s.Patch(ctx, obj, client.RawPatch(p.Type(), data), write)
}

func (s subresource) Apply(ctx context.Context, obj runtime.ApplyConfiguration,
	opts ...crclient.SubResourceApplyOption) error {
	o := (&crclient.SubResourceApplyOptions{}).ApplyOpts(opts)
	if err := s.w.checkOwner(types.ApplyPatchType, o.FieldManager); err != nil {
		return err
	}
	if o.SubResourceBody == nil {
		return applied(obj, func(u *unstructured.Unstructured) error {
			return s.s.Apply(ctx, u, applyOptions(&o.ApplyOptions))
		})
	}
	return applied(obj, func(u *unstructured.Unstructured) error {
		err := applied(o.SubResourceBody, func(body *unstructured.Unstructured) error {
			named(body, u)
			data, err := json.Marshal(body)
			if err != nil {
				return err
			}
			write := applyOptions(&o.ApplyOptions)
			write.Answer = body
			return s.s.Patch(ctx, u, client.RawPatch(types.ApplyPatchType, data), write)
		})
		if err == nil { // the subresource has the version of its object
			u.SetResourceVersion(versionOf(o.SubResourceBody))
		}
		return err
	})
}

// versionOf returns the resourceVersion of a configuration.
func versionOf(config runtime.ApplyConfiguration) string {
	var head struct {
		Metadata struct{ ResourceVersion string }
	}
	if data, err := json.Marshal(config); err == nil {
		_ = json.Unmarshal(data, &head) // without metadata, there is no version
	}
	return head.Metadata.ResourceVersion
}
