package kubernetes_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// forbid creates a policy and its binding. The expression allowed must be true for permitted
// requests.
func (p garbage) forbid(name, resource string, operation admissionv1.OperationType,
	condition, allowed string) *admissionv1.ValidatingAdmissionPolicyBinding {
	p.Helper()
	group, resource, ok := strings.Cut(resource, "/")
	if !ok {
		group, resource = "", group
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{operation},
					Rule: admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"},
						Resources: []string{resource}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: allowed, Message: "denied by " + name}},
		}}
	if condition != "" {
		policy.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "applies", Expression: condition}}
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}}
	p.Create(p.T, policy)
	p.Create(p.T, binding)
	p.Settle(p.T)
	return binding
}

const isProtected = `has(oldObject.metadata.labels) && "protected" in oldObject.metadata.labels`

// A policy that denies the deletion of labeled objects holds against the namespace controller: the
// namespace stays until the policy is gone, and says why.
func TestDeniedDeletionKeepsNamespace(t *testing.T) {
	collecting(t, func(p garbage) {
		binding := p.forbid("protect", "configmaps", admissionv1.Delete, isProtected, "false")
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		p.Create(p.T, ns)
		labeled := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a",
			Labels: map[string]string{"protected": ""}}}
		p.Create(p.T, labeled)
		p.Create(p.T, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "free"}})
		p.delete(ns, metav1.DeletePropagationBackground)
		time.Sleep(time.Minute)
		p.Get(p.T, labeled)
		if !labeled.DeletionTimestamp.IsZero() {
			p.Error("the protected object is being deleted")
		}
		n := p.Plane().Store().Snapshot().Count("secrets", "team")
		assert.Equalf(p, n, 0, "objects of other kinds are left")
		p.Get(p.T, ns)
		i := slices.IndexFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == corev1.NamespaceDeletionContentFailure
		})
		if i < 0 || ns.Status.Conditions[i].Status != corev1.ConditionTrue ||
			!strings.Contains(ns.Status.Conditions[i].Message, "denied by protect") {
			p.Errorf("conditions %v", ns.Status.Conditions)
		}
		p.delete(binding, metav1.DeletePropagationBackground)
		time.Sleep(2 * time.Minute) // the longest delay between two attempts is a minute
		if err := p.Client().Get(p.Context(), client.KeyOf(ns), ns); !apierrors.IsNotFound(err) {
			p.Errorf("the namespace still exists: %v %v", err, ns.Status.Conditions)
		}
	})
}

// A policy that denies the deletion of labeled objects holds against the garbage collector: the
// dependent stays until the policy is gone. The policy can tell the collector from other users.
func TestDeniedDeletionKeepsDependent(t *testing.T) {
	collecting(t, func(p garbage) {
		const collector = `request.userInfo.username == "system:serviceaccount:kube-system:generic-garbage-collector" &&
			"system:serviceaccounts:kube-system" in request.userInfo.groups && !("system:masters" in request.userInfo.groups)`
		binding := p.forbid("protect", "configmaps", admissionv1.Delete, collector, "!("+isProtected+")")
		root := p.add("a-root")
		labeled := p.add("b-child", ownedBy(root, false))
		p.update(labeled, func() { labeled.Labels = map[string]string{"protected": ""} })
		p.add("c-child", ownedBy(root, false))
		p.delete(root, metav1.DeletePropagationBackground)
		time.Sleep(time.Hour)
		p.left("b-child")
		p.delete(binding, metav1.DeletePropagationBackground)
		time.Sleep(time.Hour)
		p.left()
	})
}

// The removal of finalizers and references by the garbage collector passes admission too.
func TestDeniedUpdateByCollector(t *testing.T) {
	collecting(t, func(p garbage) {
		binding := p.forbid("freeze", "configmaps", admissionv1.Update,
			`request.userInfo.username.endsWith(":generic-garbage-collector")`, "false")
		root := p.add("a-root")
		child := p.add("b-child", ownedBy(root, true))
		p.delete(root, metav1.DeletePropagationOrphan)
		time.Sleep(time.Hour)
		p.left("a-root", "b-child")
		p.delete(binding, metav1.DeletePropagationBackground)
		time.Sleep(time.Hour)
		p.left("b-child")
		p.Get(p.T, child)
		assert.Lenf(p, child.OwnerReferences, 0, "owners")
	})
}

// If only service accounts of kube-system may create pods, Deployments still work.
func TestOnlySystemAccountsCreatePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := garbage{t, testenv.New(t, testenv.Workloads(), testenv.Nodes(controlplane.Simulated{}), testenv.Log(t))}
		p.forbid("system-only", "pods", admissionv1.Create, "",
			`request.userInfo.username.startsWith("system:serviceaccount:kube-system:")`)
		labels := map[string]string{"app": "web"}
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		if err := p.Client().Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"}, Spec: spec}); err == nil ||
			!strings.Contains(err.Error(), "denied") && !strings.Contains(err.Error(), "system-only") {
			t.Errorf("the policy does not hold against users: %v", err)
		}
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
			}}
		p.Create(t, web)
		time.Sleep(time.Minute)
		p.Get(t, web)
		assert.Equalf(t, web.Status.ReadyReplicas, 2, "status %+v", web.Status)
		pods, err := client.List[corev1.Pod](t.Context(), p.Client(), client.InNamespace("default"))
		if err != nil || len(pods) != 2 {
			t.Errorf("%d pods, %v", len(pods), err)
		}
	})
}
