package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

const (
	ofNamespaces = "system:serviceaccount:kube-system:namespace-controller"
	ofGarbage    = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// auditLog keeps the audit records of deletions.
type auditLog struct {
	mu      sync.Mutex
	records map[string]bool // "USER VERB RESOURCE NAMESPACE/NAME CODE"
}

func (l *auditLog) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditapi.LevelMetadata,
		OmitStages: []auditapi.Stage{auditapi.StageRequestReceived}}
}

func (l *auditLog) ProcessEvents(events ...*auditapi.Event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range events {
		if ref := e.ObjectRef; ref != nil && e.ResponseStatus != nil && strings.HasPrefix(e.Verb, "delete") {
			l.records[fmt.Sprintf("%s %s %s %s/%s %d", e.User.Username, e.Verb, ref.Resource, ref.Namespace, ref.Name,
				e.ResponseStatus.Code)] = true
		}
	}
	return true
}

func (l *auditLog) has(record string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[record]
}

// guard denies the deletion of labeled objects until it is released, and keeps who deleted what.
type guard struct {
	mu       sync.Mutex
	released bool
	seen     map[string]bool // "USER NAME"
}

func (g *guard) answer(r *review) *admissionv1.AdmissionResponse {
	g.mu.Lock()
	defer g.mu.Unlock()
	var old corev1.ConfigMap // the review of a collection has no name
	if err := json.Unmarshal(r.OldObject.Raw, &old); err != nil {
		return deny(r)
	}
	g.seen[r.UserInfo.Username+" "+old.Name] = true
	if !g.released && old.Labels["protected"] != "" {
		return deny(r)
	}
	return allow(r)
}

func (g *guard) release(released bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.released = released
}

func (g *guard) has(call string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[call]
}

// A webhook on DELETE is called for the deletions of the namespace controller and the garbage
// collector, as their own users. What it denies stays. Audit records these deletions.
func TestDeletionsByControllers(t *testing.T) {
	log := &auditLog{records: map[string]bool{}}
	c := startWith(t, controlplane.Config{Audit: controlplane.Audit{Policy: log, Sink: log}})
	g := &guard{seen: map[string]bool{}}
	hook := newHook(t, g.answer)
	ctx := t.Context()
	until := func(what string, done func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 5*time.Minute, true,
			func(context.Context) (bool, error) { return done(), nil })
		if err != nil {
			log.mu.Lock()
			defer log.mu.Unlock()
			t.Fatalf("%s: %v; audit records %q", what, err, slices.Sorted(maps.Keys(log.records)))
		}
	}
	none, url := admissionregistrationv1.SideEffectClassNone, hook.URL
	_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "guard"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "guard.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: hook.ca},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"configmaps"}},
				}},
			}},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	add := func(namespace, name string, labels map[string]string, owner *corev1.ConfigMap) *corev1.ConfigMap {
		t.Helper()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if owner != nil {
			obj.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name,
				UID: owner.UID}}
		}
		obj, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, obj, metav1.CreateOptions{})
		require.NoError(t, err)
		return obj
	}
	kept := func(namespace, name string) {
		t.Helper()
		if obj, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil ||
			!obj.DeletionTimestamp.IsZero() {
			t.Fatalf("%s/%s was deleted although the webhook denies it: %v", namespace, name, err)
		}
	}
	gone := func(namespace, name string) bool {
		_, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}
	protected := map[string]string{"protected": "yes"}

	// It is called for users once it was observed.
	add("default", "probe", protected, nil)
	until("the webhook is called", func() bool {
		err := c.CoreV1().ConfigMaps("default").Delete(ctx, "probe",
			metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "not today")
	})

	spaces := c.CoreV1().Namespaces()
	_, err = spaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	add("team", "a", protected, nil)
	add("team", "b", nil, nil)
	require.NoError(t, spaces.Delete(ctx, "team", metav1.DeleteOptions{}))
	until("the namespace names the webhook", func() bool {
		ns, err := spaces.Get(ctx, "team", metav1.GetOptions{})
		return err == nil && strings.Contains(fmt.Sprint(ns.Status.Conditions), "not today")
	})
	kept("team", "a")

	root := add("default", "root", nil, nil)
	add("default", "child", protected, root)
	require.NoError(t, c.CoreV1().ConfigMaps("default").Delete(ctx, "root", metav1.DeleteOptions{}))
	until("the garbage collector is denied", func() bool {
		return log.has(ofGarbage + " delete configmaps default/child 400")
	})
	kept("default", "child")

	g.release(true)
	until("the namespace and the dependent are gone", func() bool {
		_, err := spaces.Get(ctx, "team", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && gone("default", "child")
	})
	for _, call := range []string{ofNamespaces + " a", ofNamespaces + " b", ofGarbage + " child"} {
		if !g.has(call) {
			t.Errorf("the webhook was not called for %q", call)
		}
	}
	for _, record := range []string{
		ofNamespaces + " deletecollection configmaps team/ 400",
		ofNamespaces + " deletecollection configmaps team/ 200",
		ofGarbage + " delete configmaps default/child 200",
	} {
		if !log.has(record) {
			t.Errorf("no audit record %q", record)
		}
	}
}
