// Package podsecurity is the PodSecurity admission plugin: it enforces the Pod Security Standards
// that a namespace's labels select.
//
//	pod-security.kubernetes.io/enforce: restricted   # reject pods that violate the standard
//	pod-security.kubernetes.io/warn: restricted      # warn, including for workloads that create pods
//	pod-security.kubernetes.io/audit: baseline
//
// The rules are those of k8s.io/pod-security-admission. The plugin reads namespaces and pods from
// the store. For a namespace where everything is allowed, which is the default, it only reads the
// labels.
package podsecurity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	standards "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Name is the plugin's name in --enable-admission-plugins.
const Name = "PodSecurity"

// Plugin implements admission.ValidationInterface.
type Plugin struct {
	rules standards.Admission
}

var _ admission.ValidationInterface = (*Plugin)(nil)

// New returns the plugin over a store. config is a PodSecurityConfiguration with defaults and
// exemptions; with nil, namespaces without labels allow everything. counted registers the plugin's
// metrics and may be nil.
func New(st *store.Store, config []byte, counted prometheus.Registerer) (*Plugin, error) {
	var reader io.Reader
	if config != nil {
		reader = bytes.NewReader(config)
	}
	loaded, err := load.LoadFromReader(reader)
	if err != nil {
		return nil, err
	}
	p := &Plugin{rules: standards.Admission{
		Configuration:    loaded,
		Evaluator:        evaluator{},
		Metrics:          newCounts(counted),
		PodSpecExtractor: standards.DefaultPodSpecExtractor{},
		NamespaceGetter:  reads{st},
		PodLister:        reads{st},
	}}
	if err := p.rules.CompleteConfiguration(); err != nil {
		return nil, fmt.Errorf("%s configuration error: %w", Name, err)
	}
	if err := p.rules.ValidateConfiguration(); err != nil {
		return nil, fmt.Errorf("%s invalid: %w", Name, err)
	}
	return p, nil
}

// Handles reports whether the plugin handles an operation.
func (*Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// prototypes has constructors of the versioned objects of the evaluated resources.
var prototypes = map[schema.GroupResource]func() runtime.Object{
	{Resource: "namespaces"}:                  func() runtime.Object { return &corev1.Namespace{} },
	{Resource: "pods"}:                        func() runtime.Object { return &corev1.Pod{} },
	{Resource: "podtemplates"}:                func() runtime.Object { return &corev1.PodTemplate{} },
	{Resource: "replicationcontrollers"}:      func() runtime.Object { return &corev1.ReplicationController{} },
	{Group: "apps", Resource: "replicasets"}:  func() runtime.Object { return &appsv1.ReplicaSet{} },
	{Group: "apps", Resource: "deployments"}:  func() runtime.Object { return &appsv1.Deployment{} },
	{Group: "apps", Resource: "statefulsets"}: func() runtime.Object { return &appsv1.StatefulSet{} },
	{Group: "apps", Resource: "daemonsets"}:   func() runtime.Object { return &appsv1.DaemonSet{} },
	{Group: "batch", Resource: "jobs"}:        func() runtime.Object { return &batchv1.Job{} },
	{Group: "batch", Resource: "cronjobs"}:    func() runtime.Object { return &batchv1.CronJob{} },
}

// Validate rejects objects that violate the namespace's enforced standard, and adds warnings and
// audit annotations for violations of the other two.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	prototype := prototypes[a.GetResource().GroupResource()]
	if prototype == nil {
		return nil
	}
	answer := p.rules.Validate(ctx, attributes{
		Attributes: a,
		object:     sync.OnceValues(func() (runtime.Object, error) { return versioned(a.GetObject(), prototype(), o) }),
		old: sync.OnceValues(func() (runtime.Object, error) {
			return versioned(a.GetOldObject(), prototype(), o)
		}),
	})
	for _, w := range answer.Warnings {
		warning.AddWarning(ctx, "", w)
	}
	for k, v := range answer.AuditAnnotations {
		audit.AddAuditAnnotation(ctx, api.AuditAnnotationPrefix+k, v)
	}
	if answer.Allowed {
		return nil
	}
	return refusal(a, answer)
}

// refusal returns the Forbidden error that upstream's plugin returns.
func refusal(a admission.Attributes, answer *admissionv1.AdmissionResponse) error {
	err := admission.NewForbidden(a, errors.New("Not allowed by PodSecurity"))
	var status *apierrors.StatusError
	if result := answer.Result; result != nil && errors.As(err, &status) {
		if result.Message != "" {
			status.ErrStatus.Message = result.Message
		}
		if result.Reason != "" {
			status.ErrStatus.Reason = result.Reason
		}
		if result.Details != nil {
			status.ErrStatus.Details = result.Details
		}
		if result.Code != 0 {
			status.ErrStatus.Code = result.Code
		}
	}
	return err
}

// attributes adapts a write to the rules. It converts objects to their versioned form only when the
// rules read them.
type attributes struct {
	admission.Attributes
	object, old func() (runtime.Object, error)
}

func (a attributes) GetObject() (runtime.Object, error)    { return a.object() }
func (a attributes) GetOldObject() (runtime.Object, error) { return a.old() }
func (a attributes) GetUserName() string                   { return a.GetUserInfo().GetName() }
func (a attributes) GetOperation() admissionv1.Operation {
	return admissionv1.Operation(a.Attributes.GetOperation())
}

func versioned(hub, into runtime.Object, o admission.ObjectInterfaces) (runtime.Object, error) {
	if hub == nil {
		return nil, errors.New("missing object")
	}
	return into, o.GetObjectConvertor().Convert(hub, into, nil)
}

// reads implements the rules' access to namespaces and pods.
type reads struct{ store *store.Store }

func (r reads) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	return derived.Get[corev1.Namespace](r.store.Snapshot(), "namespaces", "", name)
}

func (r reads) ListPods(_ context.Context, namespace string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for pod, err := range derived.List[corev1.Pod](r.store.Snapshot(), "pods", namespace) {
		if err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

// evaluator creates upstream's evaluator on first use. It has no state, so all control planes share
// one.
type evaluator struct{}

var checks = sync.OnceValue(func() policy.Evaluator {
	all, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(fmt.Sprintf("create evaluator of pod security checks: %v", err))
	}
	return all
})

func (evaluator) EvaluatePod(level api.LevelVersion, meta *metav1.ObjectMeta,
	spec *corev1.PodSpec) []policy.CheckResult {
	return checks().EvaluatePod(level, meta, spec)
}
