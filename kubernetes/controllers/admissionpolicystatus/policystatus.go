// Package admissionpolicystatus checks the types in the expressions of ValidatingAdmissionPolicies, once per generation, and writes what it finds into
// their status: status.typeChecking and status.observedGeneration. Policies work without it.
//
// The schemas are those that clients are shown: the control plane's own OpenAPI documents.
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

// FieldOwner is who owns the status: the name that Kubernetes' controller has.
const FieldOwner = "validatingadmissionpolicy-status-controller"

// Config is what the controller works on.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// REST reads schemas and writes.
	REST *rest.Config
	Log  *slog.Logger
}

// Controller is the controller of one control plane.
type Controller struct {
	cfg    Config
	client kubernetes.Interface // nil until it is needed
}

// New returns a controller; Run makes it work.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Run works until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[string]{
		Name: "policy status", Store: c.cfg.Store, Resources: []string{policies}, Log: c.cfg.Log,
		Keys: func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
		Sync: c.sync,
	})
}

func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	policy, err := derived.Get[admissionregistrationv1.ValidatingAdmissionPolicy](c.cfg.Store.Snapshot(), policies, "", name)
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
		"status":     status{policy.Generation, admissionregistrationv1.TypeChecking{ExpressionWarnings: checker.Check(policy)}},
	})
	if err != nil {
		return 0, err
	}
	force := true
	_, err = c.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Patch(ctx, name, types.ApplyPatchType, apply,
		metav1.PatchOptions{FieldManager: FieldOwner, Force: &force}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return 0, nil // it is gone, or another one
	}
	return 0, err
}

// kinds tells the kinds of resources as the registry has them. The type checker asks nothing else of a mapper.
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
