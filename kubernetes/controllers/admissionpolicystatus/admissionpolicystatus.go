// Package admissionpolicystatus replaces validatingadmissionpolicy-status-controller: it checks the
// types in the expressions of each ValidatingAdmissionPolicy once per generation, and writes the
// warnings to status.typeChecking and the generation to status.observedGeneration. Policies are
// enforced without it.
//
// It takes the schemas from the control plane's own OpenAPI documents, which are those that clients
// see.
package admissionpolicystatus

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
)

const policies = "validatingadmissionpolicies.admissionregistration.k8s.io"

// fieldOwner is the field manager of the status. Kubernetes' controller uses the same name.
const fieldOwner = "validatingadmissionpolicy-status-controller"

// Config configures the controller. Store, Registry and REST are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// REST reads the schemas and writes the status.
	REST *rest.Config
	Log  *slog.Logger
}

// Controller writes the policies' status of one control plane.
type Controller struct {
	cfg    Config
	client kubernetes.Interface // nil until first use
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[string]{
		Name: "policy status", Store: c.cfg.Store, Resources: []string{policies}, Log: c.cfg.Log,
		Keys: func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
		Sync: c.sync,
	})
}

func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	policy, err := derived.Get[admissionregistrationv1.ValidatingAdmissionPolicy](c.cfg.Store.Snapshot(), policies, "",
		name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if policy.Generation <= policy.Status.ObservedGeneration {
		return 0, nil
	}
	if c.client == nil {
		if c.client, err = kubernetes.NewForConfig(c.cfg.REST); err != nil {
			return 0, err
		}
	}
	checker := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: c.client.Discovery()},
		RestMapper:     kinds{set: c.cfg.Registry.Current()},
	}
	type status struct {
		ObservedGeneration int64                                `json:"observedGeneration"`
		TypeChecking       admissionregistrationv1.TypeChecking `json:"typeChecking"`
	}
	apply, err := json.Marshal(map[string]any{
		"apiVersion": admissionregistrationv1.SchemeGroupVersion.String(),
		"kind":       "ValidatingAdmissionPolicy",
		"metadata":   map[string]any{"name": name, "uid": policy.UID},
		"status": status{policy.Generation,
			admissionregistrationv1.TypeChecking{ExpressionWarnings: checker.Check(policy)}},
	})
	if err != nil {
		return 0, err
	}
	force := true
	_, err = c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(ctx, name, types.ApplyPatchType,
		apply,
		metav1.PatchOptions{FieldManager: fieldOwner, Force: &force}, "status")
	// The event of another object with this name queues it again.
	if apierrors.IsConflict(err) && !follow.Exists(c.cfg.Store, store.Key{Resource: policies, Name: name}, policy.UID) {
		return 0, nil
	}
	return 0, follow.IgnoreGone(c.cfg.Store, store.Key{Resource: policies, Name: name}, policy.UID, err)
}

// kinds is a RESTMapper over the registry. It implements only KindsFor, the one method that the
// type checker calls.
type kinds struct {
	meta.RESTMapper
	set *resource.Set
}

func (k kinds) KindsFor(gvr schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	res, ok := k.set.ByName(gvr.GroupResource())
	if ok {
		_, ok = res.Serves(gvr.Version)
	}
	if !ok {
		return nil, &meta.NoResourceMatchError{PartialResource: gvr}
	}
	return []schema.GroupVersionKind{res.GVK(gvr.Version)}, nil
}
