package kubernetes_test

import (
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/namespacedefaults"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/operator/client"
)

// defaulting is a client of a control plane with helpers for these tests.
type defaulting struct {
	*testing.T
	client.Client
}

func withDefaults(t *testing.T, cfg controlplane.Config, test func(p defaulting)) {
	synctest.Test(t, func(t *testing.T) {
		cp := startPlane(t, cfg)
		c, err := client.New(client.Config{REST: cp.RESTConfig()})
		require.NoError(t, err)
		test(defaulting{t, c})
	})
}

func (p defaulting) namespace(name string) *corev1.Namespace {
	p.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(p, p.Create(p.Context(), ns))
	return ns
}

// exists waits until all controllers are idle, and reads an object. It reports whether the object
// exists.
func (p defaulting) exists(obj client.Object, namespace, name string) bool {
	p.Helper()
	synctest.Wait()
	err := p.Get(p.Context(), client.Key{Namespace: namespace, Name: name}, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		p.Fatal(err)
	}
	return err == nil
}

var withCA = controlplane.Config{RootCA: []byte("the certificate")}

// Every Namespace gets the default service account and the root certificate.
func TestDefaultsInEveryNamespace(t *testing.T) {
	withDefaults(t, withCA, func(p defaulting) {
		p.namespace("lab")
		for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease", "lab"} {
			cm := &corev1.ConfigMap{}
			if !p.exists(&corev1.ServiceAccount{}, ns, namespacedefaults.ServiceAccount) ||
				!p.exists(cm, ns, namespacedefaults.ConfigMap) {
				p.Errorf("%s lacks the default objects", ns)
			}
			if len(cm.Data) != 1 || cm.Data["ca.crt"] != "the certificate" {
				p.Errorf("the root CA in %s is %v", ns, cm.Data)
			}
		}
	})
}

// Deleted default objects are created again, and changes of the root certificate are reverted.
func TestDefaultsAreRestored(t *testing.T) {
	withDefaults(t, withCA, func(p defaulting) {
		sa, cm := &corev1.ServiceAccount{}, &corev1.ConfigMap{}
		if !p.exists(sa, "default", namespacedefaults.ServiceAccount) ||
			!p.exists(cm, "default", namespacedefaults.ConfigMap) {
			p.Fatal("the namespace lacks the default objects")
		}
		uid := sa.UID
		require.NoError(p, p.Delete(p.Context(), sa))
		if !p.exists(sa, "default", namespacedefaults.ServiceAccount) || sa.UID == uid {
			p.Error("the deleted service account was not created again")
		}
		cm.Data, cm.Annotations = map[string]string{"ca.crt": "another", "more": "x"}, nil
		require.NoError(p, p.Update(p.Context(), cm))
		if p.exists(cm, "default", namespacedefaults.ConfigMap); cm.Data["ca.crt"] != "the certificate" ||
			len(cm.Data) != 1 || len(cm.Annotations) != 1 {
			p.Errorf("the root CA is %v %v", cm.Annotations, cm.Data)
		}
		require.NoError(p, p.Delete(p.Context(), cm))
		if !p.exists(cm, "default", namespacedefaults.ConfigMap) {
			p.Error("the deleted root CA was not created again")
		}
	})
}

// A policy or webhook that rejects the ConfigMap does not prevent the service account.
func TestDefaultsDoNotDependOnEachOther(t *testing.T) {
	withDefaults(t, withCA, func(p defaulting) {
		policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-configmaps"},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"configmaps"}},
				}}}},
				Validations: []admissionv1.Validation{{Expression: "false"}},
			}}
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "no-configmaps"},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "no-configmaps", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			}}
		for _, obj := range []client.Object{policy, binding} {
			require.NoError(p, p.Create(p.Context(), obj))
		}
		p.namespace("lab")
		if !p.exists(&corev1.ServiceAccount{}, "lab", namespacedefaults.ServiceAccount) ||
			p.exists(&corev1.ConfigMap{}, "lab", namespacedefaults.ConfigMap) {
			p.Error("want a service account and no root CA")
		}
	})
}

// A terminating Namespace gets no default objects, so that its deletion ends.
func TestNoDefaultsInATerminatingNamespace(t *testing.T) {
	withDefaults(t, withCA, func(p defaulting) {
		ns := p.namespace("lab")
		held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "held",
			Finalizers: []string{"example.com/hold"}}}
		require.NoError(p, p.Create(p.Context(), held))
		synctest.Wait()
		require.NoError(p, p.Delete(p.Context(), ns))
		if p.exists(&corev1.ServiceAccount{}, "lab", namespacedefaults.ServiceAccount) ||
			p.exists(&corev1.ConfigMap{}, "lab", namespacedefaults.ConfigMap) {
			p.Error("the controller created objects in a namespace that is being deleted")
		}
		p.exists(held, "lab", "held")
		held.Finalizers = nil
		require.NoError(p, p.Update(p.Context(), held))
		if p.exists(ns, "", "lab") {
			p.Error("the namespace was not deleted")
		}
	})
}

// Without a root certificate, only the service account is created, and without controllers neither.
func TestWithoutAuthorityOrControllers(t *testing.T) {
	withDefaults(t, controlplane.Config{}, func(p defaulting) {
		if !p.exists(&corev1.ServiceAccount{}, "default", namespacedefaults.ServiceAccount) ||
			p.exists(&corev1.ConfigMap{}, "default", namespacedefaults.ConfigMap) {
			p.Error("want a service account and no root CA")
		}
	})
	withDefaults(t, controlplane.Config{Controllers: controlplane.NoControllers{}, RootCA: withCA.RootCA}, func(p defaulting) {
		if p.exists(&corev1.ServiceAccount{}, "default", namespacedefaults.ServiceAccount) ||
			p.exists(&corev1.ConfigMap{}, "default", namespacedefaults.ConfigMap) {
			p.Error("want nothing without controllers")
		}
	})
}
