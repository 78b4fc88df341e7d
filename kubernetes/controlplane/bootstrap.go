package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/builtin"
)

// bootstrap creates, through the API, the objects that every cluster always has and that state
// lacks: namespaces, the ServiceCIDR of the configured ranges and the Service "kubernetes". It
// omits kinds that are not served.
func bootstrap(ctx context.Context, state *store.Snapshot, served *resource.Set, transport http.RoundTripper,
	serviceRange string, log *slog.Logger) error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
		corev1.NamespaceNodeLease} {
		if !lacks(state, served, store.Key{Resource: "namespaces", Name: name}) {
			continue
		}
		err := create(ctx, transport, "/api/v1/namespaces", &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		})
		if err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	if err := defaultServiceCIDR(ctx, state, served, transport, serviceRange, log); err != nil {
		return err
	}
	if !lacks(state, served, store.Key{Resource: "services", Namespace: metav1.NamespaceDefault, Name: "kubernetes"}) {
		return nil
	}
	address, err := firstAddress(serviceRange)
	if err != nil {
		return err
	}
	policy := corev1.IPFamilyPolicySingleStack
	err = create(ctx, transport, "/api/v1/namespaces/default/services", &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      "kubernetes",
			Namespace: metav1.NamespaceDefault,
			Labels:    map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:       address,
			Type:            corev1.ServiceTypeClusterIP,
			SessionAffinity: corev1.ServiceAffinityNone,
			IPFamilyPolicy:  &policy,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(6443),
			}},
		},
	})
	if err != nil {
		return fmt.Errorf("service kubernetes: %w", err)
	}
	return nil
}

// initialObjects are the objects that bootstrap creates, with their resources.
var initialObjects = map[store.Key]schema.GroupVersionResource{
	{Resource: "namespaces", Name: metav1.NamespaceDefault}:   corev1.SchemeGroupVersion.WithResource("namespaces"),
	{Resource: "namespaces", Name: metav1.NamespaceSystem}:    corev1.SchemeGroupVersion.WithResource("namespaces"),
	{Resource: "namespaces", Name: metav1.NamespacePublic}:    corev1.SchemeGroupVersion.WithResource("namespaces"),
	{Resource: "namespaces", Name: corev1.NamespaceNodeLease}: corev1.SchemeGroupVersion.WithResource("namespaces"),
	{Resource: "servicecidrs.networking.k8s.io",
		Name: builtin.DefaultServiceCIDR}: networkingv1.SchemeGroupVersion.WithResource("servicecidrs"),
	{Resource: "services", Namespace: metav1.NamespaceDefault,
		Name: "kubernetes"}: corev1.SchemeGroupVersion.WithResource("services"),
}

// lacks reports whether an initial object does not exist, although its kind is served.
func lacks(state *store.Snapshot, served *resource.Set, key store.Key) bool {
	return state.Get(key) == nil && served.Serves(initialObjects[key], "")
}

// createPriorityClasses creates the priority classes that state lacks. kube-apiserver, too, creates
// them only when it starts.
func createPriorityClasses(ctx context.Context, state *store.Snapshot, served *resource.Set,
	transport http.RoundTripper) error {
	for _, class := range priorityClasses() {
		if state.Get(store.Key{Resource: "priorityclasses.scheduling.k8s.io", Name: class.Name}) != nil ||
			!served.Serves(schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), "") {
			continue
		}
		if err := create(ctx, transport, "/apis/scheduling.k8s.io/v1/priorityclasses", class); err != nil {
			return fmt.Errorf("priority class %s: %w", class.Name, err)
		}
	}
	return nil
}

// priorityClasses returns the priority classes of system pods, as kube-apiserver creates them.
func priorityClasses() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{
			TypeMeta:   metav1.TypeMeta{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Description: description,
		}
	}
	const system = 2_000_000_000
	return []*schedulingv1.PriorityClass{
		class("system-cluster-critical", system,
			"Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
		class("system-node-critical", system+1000,
			"Used for system critical pods that must not be moved from their current node."),
	}
}

// metricsReader creates the role that lets the users with the roles view, edit and admin read
// metrics.k8s.io, as the manifests of metrics-server do.
func metricsReader(ctx context.Context, state *store.Snapshot, served *resource.Set,
	transport http.RoundTripper) error {
	const name = "system:aggregated-metrics-reader"
	if state.Get(store.Key{Resource: "clusterroles.rbac.authorization.k8s.io", Name: name}) != nil ||
		!served.Serves(rbacv1.SchemeGroupVersion.WithResource("clusterroles"), "") {
		return nil
	}
	err := create(ctx, transport, "/apis/rbac.authorization.k8s.io/v1/clusterroles", &rbacv1.ClusterRole{
		TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"rbac.authorization.k8s.io/aggregate-to-view":  "true",
			"rbac.authorization.k8s.io/aggregate-to-edit":  "true",
			"rbac.authorization.k8s.io/aggregate-to-admin": "true",
		}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1beta1.GroupName}, Resources: []string{"pods", "nodes"},
			Verbs: []string{"get", "list", "watch"}}},
	})
	if err != nil {
		return fmt.Errorf("cluster role %s: %w", name, err)
	}
	return nil
}

// firstAddress returns the first usable address of the service range, which is the cluster IP of
// the Service "kubernetes".
func firstAddress(serviceRange string) (string, error) {
	if serviceRange == "" {
		return "10.0.0.1", nil
	}
	primary, _, _ := strings.Cut(serviceRange, ",")
	ip, _, err := net.ParseCIDR(strings.TrimSpace(primary))
	if err != nil {
		return "", fmt.Errorf("service range: %w", err)
	}
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	ip[len(ip)-1]++
	return ip.String(), nil
}

// create posts an object. It ignores a conflict, because another server of the same store may have
// created the object first.
func create(ctx context.Context, transport http.RoundTripper, collection string, obj any) error {
	_, err := writeAsServer(http.MethodPost, collection, obj).Do(ctx, transport)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// writeAsServer returns the write of an object whose fields the API server manages.
func writeAsServer(method, path string, obj any) inprocess.Call {
	return inprocess.Call{Method: method, Path: path, Body: obj, UserAgent: "kube-apiserver"}
}
