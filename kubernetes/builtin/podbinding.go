package builtin

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"kelson.dev/apiserver/resource"
)

// binding serves the resource bindings, which is older than pods/binding: POST binds the pod with
// the name of the Binding.
func (k *kinds) binding() *review {
	return &review{namespaced: true, create: func(ctx context.Context, req *resource.Request,
		hub runtime.Object) (runtime.Object, error) {
		b := hub.(*core.Binding)
		if err := validBinding(b.Name, b); err != nil {
			return nil, err
		}
		return k.bind(ctx, req, b.Name, b)
	}}
}

// checkBinding checks the body of pods/binding.
func checkBinding(_ context.Context, req *resource.Request, body runtime.Object) error {
	return validBinding(req.Name, body.(*core.Binding))
}

func validBinding(name string, b *core.Binding) error {
	if name != b.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validation.ValidatePodBinding(b); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return nil
}

// bindPod serves pods/binding.
func (k *kinds) bindPod(ctx context.Context, req *resource.Request, body runtime.Object) (runtime.Object, error) {
	b := &core.Binding{}
	if err := Scheme().Convert(body, b, nil); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %T", body))
	}
	return k.bind(ctx, req, req.Name, b)
}

// bind assigns a pod to a node. It returns a conflict if the pod has a node, is being deleted, or
// has scheduling gates.
func (k *kinds) bind(ctx context.Context, req *resource.Request, name string, b *core.Binding) (runtime.Object, error) {
	if name == "" {
		return nil, apierrors.NewBadRequest("Name parameter required.")
	}
	_, err := req.Objects.Update(ctx, k.resource("", "pods"), req.Namespace, name, unchecked{pod.Strategy}, req.DryRun,
		func(hub runtime.Object) error {
			p := hub.(*core.Pod)
			if err := bindingPreconditions(b).Check("/pods/"+p.Namespace+"/"+name, p); err != nil {
				return apierrors.NewConflict(core.Resource("pods"), name, err)
			}
			if err := assign(p, b); err != nil {
				return apierrors.NewConflict(core.Resource("pods/binding"), name, err)
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
}

// bindingPreconditions returns the preconditions that the metadata of a binding contain.
func bindingPreconditions(b *core.Binding) *storage.Preconditions {
	p := &storage.Preconditions{}
	if b.UID != "" {
		p.UID = &b.UID
	}
	if b.ResourceVersion != "" {
		p.ResourceVersion = &b.ResourceVersion
	}
	return p
}

// assign copies the node name, annotations and labels of the binding to the pod.
func assign(p *core.Pod, b *core.Binding) error {
	switch {
	case p.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", p.Name)
	case p.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", p.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", p.Name)
	}
	p.Spec.NodeName = b.Target.Name
	p.Status.NominatedNodeName = "" // the scheduler's proposal is obsolete
	p.Annotations = merged(p.Annotations, b.Annotations)
	p.Labels = merged(p.Labels, b.Labels)
	podutil.DropInitContainerAnnotations(p.Annotations)
	podutil.UpdatePodCondition(&p.Status, &core.PodCondition{Type: core.PodScheduled, Status: core.ConditionTrue})
	return nil
}

func merged(into, from map[string]string) map[string]string {
	if into == nil && len(from) > 0 {
		into = map[string]string{}
	}
	maps.Copy(into, from)
	return into
}

// unchecked is a strategy for writes of the control plane itself to a field that updates must not
// change (a pod's node). It validates only metadata.
type unchecked struct{ upstream.RESTUpdateStrategy }

func (unchecked) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}
func (unchecked) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}
func (unchecked) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
func (unchecked) Canonicalize(runtime.Object) {}
