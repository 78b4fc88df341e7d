package kubernetes_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// misleading answers the first attempt of each write of our controllers with 404 for another
// object, as admission does that does not find a namespace.
type misleading struct {
	mu   sync.Mutex
	seen map[string]bool
}

// via is the transport to a control plane as one user.
type via struct {
	*misleading
	next http.RoundTripper
}

const notFound = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"namespaces \"\" not found","details":{"kind":"namespaces"}}`

func (m *via) RoundTrip(r *http.Request) (*http.Response, error) {
	_, account, _ := strings.Cut(r.UserAgent(), " kelson/")
	own := slices.Contains([]string{
		"namespace-controller", "generic-garbage-collector", "service-account-controller",
		"ttl-after-finished-controller",
		"resourcequota-controller", "disruption-controller", "pvc-protection-controller", "root-ca-cert-publisher",
	}, account) || strings.HasPrefix(r.UserAgent(), "kubelet/")
	if !own || r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events") {
		return m.next.RoundTrip(r)
	}
	key := account + r.Method + r.URL.Path
	m.mu.Lock()
	seen := m.seen[key]
	m.seen[key] = true
	m.mu.Unlock()
	if seen {
		return m.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(notFound)),
		ContentLength: int64(len(notFound)), Request: r,
	}, nil
}

// A controller whose write fails with 404 does not take that for the deletion of its object.
func TestNotFoundOfAnotherObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &misleading{seen: map[string]bool{}}
		p := garbage{t, testenv.New(t, testenv.Nodes(controlplane.Simulated{}), testenv.Workloads(),
			testenv.Requests(func(next http.RoundTripper) http.RoundTripper {
				return &via{m, next}
			}))}
		p.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
		time.Sleep(time.Hour)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "default"}}
		p.Get(t, account)

		labels := map[string]string{"app": "a"}
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		p.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a", Labels: labels},
			Spec: spec})
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			}}
		p.Create(t, budget)
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"},
			Spec: corev1.ResourceQuotaSpec{
				Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")},
			}}
		p.Create(t, quota)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "once"}, Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: new(int32(1)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "c", Image: "i", Command: []string{"true"}}},
			}},
		}}
		p.Create(t, job)
		root := p.add("a-root")
		p.add("b-child", ownedBy(root, true))
		p.delete(root, metav1.DeletePropagationForeground)
		time.Sleep(time.Hour)
		p.left()
		p.Get(t, budget)
		assert.Equalf(t, budget.Status.CurrentHealthy, 1, "budget %+v", budget.Status)
		p.Get(t, quota)
		if used := quota.Status.Used[corev1.ResourcePods]; used.IsZero() {
			t.Errorf("quota %+v", quota.Status)
		}
		if err := p.Client().Get(t.Context(), client.KeyOf(job), job); !apierrors.IsNotFound(err) {
			t.Errorf("the finished Job exists: %v", err)
		}

		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		p.delete(ns, metav1.DeletePropagationBackground)
		time.Sleep(time.Hour)
		if err := p.Client().Get(t.Context(), client.KeyOf(ns), ns); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace exists: %v %v", err, ns.Status.Conditions)
		}
	})
}
