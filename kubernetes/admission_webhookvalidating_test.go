package kubernetes_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func configMapWebhook(name string, data ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		cm.Data[data[i]] = data[i+1]
	}
	return cm
}

func (c *hookClients) create(t *testing.T, cm *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	t.Helper()
	return c.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{})
}

// A webhook configuration applies to the next request after it is created, and no longer after it
// is deleted.
func TestConfigurationAppliesToTheNextRequest(t *testing.T) {
	c, h := startWebhook(t), newHook(t, deny)
	for i := range 20 {
		name := "cm-" + strconv.Itoa(i)
		c.validating(t, "no", h, rule("CREATE", "", "v1", "configmaps"))
		_, err := c.create(t, configMapWebhook(name))
		if want := `admission webhook "no.kelson.dev" denied the request: not today`; err == nil ||
			err.Error() != want {
			t.Fatalf("create = %v, want %s", err, want)
		}
		status := err.(apierrors.APIStatus)
		assert.Equalf(t, status.Status().Code, 400, "code")
		err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "no",
			metav1.DeleteOptions{})
		require.NoError(t, err)
		_, err = c.create(t, configMapWebhook(name))
		require.NoErrorf(t, err, "create after the deletion of the configuration")
	}
}

// The contents of reviews per operation. CVE-2021-25735: the old object is always the stored one,
// and does not depend on the request.
func TestReviewsHaveTheRightObjects(t *testing.T) {
	c, h := startWebhook(t), newHook(t, allow)
	c.validating(t, "all", h, rule("*", "", "v1", "configmaps"))
	decode := func(raw []byte) *corev1.ConfigMap {
		t.Helper()
		if len(raw) == 0 || string(raw) == "null" {
			return nil
		}
		cm := &corev1.ConfigMap{}
		require.NoError(t, json.Unmarshal(raw, cm))
		return cm
	}
	one := func(op admissionv1.Operation) (*review, *corev1.ConfigMap, *corev1.ConfigMap) {
		t.Helper()
		seen := h.reviews()
		if len(seen) != 1 || seen[0].Operation != op {
			t.Fatalf("reviews %v, want one %s", seen, op)
		}
		if k := seen[0].Kind; k.Kind != "ConfigMap" || k.Version != "v1" || seen[0].Namespace != "default" ||
			seen[0].UserInfo.Username != "kelson-admin" {
			t.Errorf("review %+v", seen[0])
		}
		return seen[0], decode(seen[0].Object.Raw), decode(seen[0].OldObject.Raw)
	}

	made, err := c.create(t, configMapWebhook("cm", "a", "1"))
	require.NoError(t, err)
	if _, obj, old := one("CREATE"); obj.Data["a"] != "1" || obj.Kind != "ConfigMap" || old != nil {
		t.Errorf("create: %v, %v", obj, old)
	}

	lie := made.DeepCopy()
	lie.Data["a"] = "2"
	lie.CreationTimestamp = metav1.Time{Time: time.Unix(1, 0)}
	_, err = c.CoreV1().ConfigMaps("default").Update(t.Context(), lie, metav1.UpdateOptions{})
	require.NoError(t, err)
	if _, obj, old := one("UPDATE"); obj.Data["a"] != "2" || old.Data["a"] != "1" || old.UID != made.UID ||
		!old.CreationTimestamp.Equal(&made.CreationTimestamp) ||
		!obj.CreationTimestamp.Equal(&made.CreationTimestamp) || old.ResourceVersion != made.ResourceVersion {
		t.Errorf("update: %v, %v", obj, old)
	}

	for _, p := range []struct {
		kind types.PatchType
		data string
	}{
		{types.JSONPatchType, `[{"op":"replace","path":"/data/a","value":"3"}]`},
		{types.MergePatchType, `{"data":{"a":"4"}}`},
		{types.StrategicMergePatchType, `{"data":{"a":"5"}}`},
		{types.ApplyPatchType, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":"6"}}`},
	} {
		opts := metav1.PatchOptions{FieldManager: "test"}
		if p.kind == types.ApplyPatchType {
			opts.Force = ptr(true)
		}
		after, err := c.CoreV1().ConfigMaps("default").Patch(t.Context(), "cm", p.kind, []byte(p.data), opts)
		require.NoError(t, err)
		r, obj, old := one("UPDATE")
		n, _ := strconv.Atoi(after.Data["a"])
		if obj.Data["a"] != after.Data["a"] || old.Data["a"] != strconv.Itoa(n-1) {
			t.Errorf("%s: %v, %v", p.kind, obj, old)
		}
		if opts := string(r.Options.Raw); !strings.Contains(opts, "UpdateOptions") &&
			!strings.Contains(opts, "PatchOptions") {
			t.Errorf("%s: options %s", p.kind, opts)
		}
	}

	require.NoError(t, c.CoreV1().ConfigMaps("default").Delete(t.Context(), "cm", metav1.DeleteOptions{}))
	if r, obj, old := one("DELETE"); obj != nil || old == nil || old.Data["a"] != "6" ||
		!strings.Contains(string(r.Options.Raw), "DeleteOptions") {
		t.Errorf("delete: %v, %v, %s", obj, old, r.Options.Raw)
	}

	for _, name := range []string{"x", "y"} {
		_, err = c.create(t, configMapWebhook(name, "a", name))
		require.NoError(t, err)
	}
	h.reviews()
	require.NoError(t, c.CoreV1().ConfigMaps("default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}))
	gone := map[string]bool{}
	for _, r := range h.reviews() {
		if old := decode(r.OldObject.Raw); r.Operation == "DELETE" && old != nil && old.Data["a"] == old.Name {
			gone[old.Name] = true
		}
	}
	if !gone["x"] || !gone["y"] || len(gone) != 2 {
		t.Errorf("deletecollection: reviews for %v, want x and y", gone)
	}
}

// The kinds of subresources.
func TestSubresourcesWithOwnKinds(t *testing.T) {
	c, h := startWebhook(t), newHook(t, allow)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "rc"},
		Spec: corev1.ReplicationControllerSpec{
			Selector: map[string]string{"a": "b"},
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec: pod.Spec},
		}}
	_, err = c.CoreV1().ReplicationControllers("default").Create(t.Context(), rc,
		metav1.CreateOptions{})
	require.NoError(t, err)
	c.validating(t, "sub", h, rule("*", "", "v1", "*/*"))
	want := func(op, sub, kind string) *review {
		t.Helper()
		for _, r := range h.reviews() {
			if r.SubResource == sub && string(r.Operation) == op && r.Kind.Kind == kind {
				return r
			}
		}
		t.Errorf("missing %s of %s as %s", op, sub, kind)
		return &review{}
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	require.NoError(t, c.CoreV1().Pods("default").Bind(t.Context(), binding, metav1.CreateOptions{}))
	r := want("CREATE", "binding", "Binding")
	assert.Containsf(t, string(r.Object.Raw), `"target"`, "binding")
	pod, err = c.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	pod.Status.Phase = corev1.PodRunning
	_, err = c.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	if r := want("UPDATE", "status", "Pod"); !strings.Contains(string(r.Object.Raw), `"phase":"Running"`) ||
		!strings.Contains(string(r.OldObject.Raw), `"phase":"Pending"`) {
		t.Errorf("status: %s from %s", r.Object.Raw, r.OldObject.Raw)
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "rc", Namespace: "default"},
		Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	_, err = c.CoreV1().ReplicationControllers("default").UpdateScale(t.Context(), "rc", scale,
		metav1.UpdateOptions{})
	require.NoError(t, err)
	if r := want("UPDATE", "scale", "Scale"); !strings.Contains(string(r.Object.Raw), `"replicas":3`) ||
		!strings.Contains(string(r.OldObject.Raw), `"replicas":1`) ||
		r.Kind.Group != "autoscaling" || r.Resource.Resource != "replicationcontrollers" {
		t.Errorf("scale: %s from %s as %v", r.Object.Raw, r.OldObject.Raw, r.Kind)
	}
}

// Selectors, scope, match conditions, match policy.
func TestMatching(t *testing.T) {
	c := startWebhook(t)
	ctx := t.Context()
	for _, ns := range []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "red", Labels: map[string]string{"colour": "red"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "blue"}},
	} {
		_, err := c.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	type edit = func(*admissionregistrationv1.ValidatingWebhook)
	create := func(namespace string, labels map[string]string) error {
		_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x", Labels: labels}}, metav1.CreateOptions{})
		return err
	}
	inRed := func() error { return create("red", map[string]string{"check": "yes"}) }
	inBlue := func() error { return create("blue", nil) }
	namespaced, cluster := admissionregistrationv1.NamespacedScope, admissionregistrationv1.ClusterScope
	condition := func(expression string) edit {
		return func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: expression}}
		}
	}
	for _, test := range []struct {
		name      string
		rule      admissionregistrationv1.RuleWithOperations
		edit      edit
		red, blue bool // whether the webhook is called
	}{
		{"all", everything, nil, true, true},
		{"another group", rule("*", "apps", "*", "*"), nil, false, false},
		{"another version", rule("*", "", "v2", "*"), nil, false, false},
		{"another operation", rule("UPDATE", "", "v1", "configmaps"), nil, false, false},
		// */* and x/* include the resource itself
		{"subresources only", rule("*", "", "v1", "configmaps/*"), nil, true, true},
		{"status only", rule("*", "", "v1", "configmaps/status"), nil, false, false},
		{"namespace selector", everything, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"colour": "red"}}
		}, true, false},
		{"object selector", everything, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"check": "yes"}}
		}, true, false},
		{"scope namespaced", everything, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.Rules[0].Scope = &namespaced
		}, true, true},
		{"scope cluster", everything, func(w *admissionregistrationv1.ValidatingWebhook) {
			w.Rules[0].Scope = &cluster
		}, false, false},
		{"condition on the object", everything,
			condition(`has(object.metadata.labels) && object.metadata.labels['check'] == 'yes'`), true, false},
		{"condition on the request", everything, condition(`request.namespace == 'blue'`), false, true},
		{"condition on the authorizer", everything,
			condition(`authorizer.group('').resource('secrets').namespace('red').check('get').allowed()`), true, true},
		{"condition that never holds", everything, condition(`!request.userInfo.username.startsWith('kelson')`), false,
			false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHook(t, allow)
			edit := test.edit
			if edit == nil {
				edit = func(*admissionregistrationv1.ValidatingWebhook) {}
			}
			test.rule.Operations = slices.Clone(test.rule.Operations)
			made := c.validating(t, "w", h, test.rule, edit)
			t.Cleanup(func() {
				err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.Background(),
					made.Name, metav1.DeleteOptions{})
				assert.NoError(t, err)
			})
			for _, probe := range []struct {
				write func() error
				asked bool
			}{{inRed, test.red}, {inBlue, test.blue}} {
				h.reviews()
				require.NoError(t, probe.write())
				n := 0 // the test's own reviews; controllers write concurrently
				for _, r := range h.reviews() {
					if strings.Contains(string(r.Object.Raw), `"generateName":"x"`) {
						n++
					}
				}
				assert.Equalf(t, n, map[bool]int{true: 1}[probe.asked], "reviews, want %v", probe.asked)
			}
		})
	}
}

// With matchPolicy Equivalent, a rule for another version matches after conversion of the object;
// with Exact, it does not.
func TestEquivalentVersions(t *testing.T) {
	c := startWebhook(t)
	exact, equivalent := newHook(t, allow), newHook(t, allow)
	c.validating(t, "exact", exact, rule("CREATE", "autoscaling", "v1", "horizontalpodautoscalers"),
		func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchPolicy = ptr(admissionregistrationv1.Exact)
		})
	c.validating(t, "equivalent", equivalent, rule("CREATE", "autoscaling", "v1", "horizontalpodautoscalers"))
	body := `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"maxReplicas":3,
		"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":70}}}]}}`
	err := c.AutoscalingV2().RESTClient().Post().Namespace("default").Resource("horizontalpodautoscalers").
		Body([]byte(body)).
		SetHeader("Content-Type", "application/json").Do(t.Context()).Error()
	require.NoError(t, err)
	if n := len(exact.reviews()); n != 0 {
		t.Errorf("matchPolicy Exact: %d reviews", n)
	}
	seen := equivalent.reviews()
	if len(seen) != 1 {
		t.Fatalf("matchPolicy Equivalent: %d reviews", len(seen))
	}
	r := seen[0]
	if r.Kind.Version != "v1" || r.RequestKind.Version != "v2" || r.Resource.Version != "v1" ||
		r.RequestResource.Version != "v2" {
		t.Errorf("kind %v of %v, resource %v of %v", r.Kind, r.RequestKind, r.Resource, r.RequestResource)
	}
	got := &autoscalingv1.HorizontalPodAutoscaler{}
	require.NoError(t, json.Unmarshal(r.Object.Raw, got))
	if got.APIVersion != "autoscaling/v1" || got.Spec.TargetCPUUtilizationPercentage == nil ||
		*got.Spec.TargetCPUUtilizationPercentage != 70 {
		t.Errorf("object %s", r.Object.Raw)
	}
}

// Failure policy, timeout, dry run.
func TestWebhooksThatFail(t *testing.T) {
	c, broken := startWebhook(t), newHook(t, func(*review) *admissionv1.AdmissionResponse { return nil })
	away := newHook(t, allow)
	away.Close()
	release := make(chan struct{})
	slow := newHook(t, func(r *review) *admissionv1.AdmissionResponse { <-release; return allow(r) })
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	patching := newHook(t, patched(`[{"op":"add","path":"/data","value":{}}]`))
	configMaps := rule("CREATE", "", "v1", "configmaps")
	stranger, err := newCertificate()
	require.NoError(t, err)
	strangerCA := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: stranger.Certificate[1]})
	for _, test := range []struct {
		name string
		h    *hookServer
		edit func(*admissionregistrationv1.ValidatingWebhook)
		want string
	}{
		{"answers 500", broken, nil, `Internal error occurred: failed calling webhook "w.kelson.dev": failed to call webhook: an error on the server ("it is broken") has prevented the request from succeeding`},
		{"is away", away, nil, `Internal error occurred: failed calling webhook "w.kelson.dev": failed to call webhook: Post "` + away.URL + `/w?timeout=10s": dial tcp ` + away.Listener.Addr().String() + `: connect: connection refused`},
		{"is slow", slow, func(w *admissionregistrationv1.ValidatingWebhook) { w.TimeoutSeconds = ptr(int32(1)) },
			`Internal error occurred: failed calling webhook "w.kelson.dev": failed to call webhook: Post "` +
				slow.URL + `/w?timeout=1s": context deadline exceeded`},
		{"patches", patching, nil, `Internal error occurred: failed calling webhook "w.kelson.dev": received invalid webhook response: validating webhook may not return response.patch`},
		{"is not trusted", newHook(t, allow), func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ClientConfig.CABundle = strangerCA
		},
			`tls: failed to verify certificate: x509: certificate signed by unknown authority`},
	} {
		for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail,
			admissionregistrationv1.Ignore} {
			t.Run(test.name+", "+string(policy), func(t *testing.T) {
				c.validating(t, "w", test.h, configMaps, func(w *admissionregistrationv1.ValidatingWebhook) {
					w.FailurePolicy = &policy
					if test.edit != nil {
						test.edit(w)
					}
				})
				t.Cleanup(func() {
					err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.Background(),
						"w", metav1.DeleteOptions{})
					assert.NoError(t, err)
				})
				_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x"}}, metav1.CreateOptions{})
				switch {
				case policy == admissionregistrationv1.Ignore && err != nil:
					t.Errorf("create = %v, want success", err)
				case policy == admissionregistrationv1.Fail &&
					(err == nil || !strings.Contains(err.Error(), test.want) || !apierrors.IsInternalError(err)):
					t.Errorf("create = %v\nwant     %s", err, test.want)
				}
			})
		}
	}
}

// A dry run calls webhooks without side effects, and the review says that it is a dry run.
func TestDryRunNeedsNoSideEffects(t *testing.T) {
	c, h := startWebhook(t), newHook(t, allow)
	for _, effects := range []admissionregistrationv1.SideEffectClass{admissionregistrationv1.SideEffectClassNone,
		admissionregistrationv1.SideEffectClassNoneOnDryRun} {
		c.validating(t, "w", h, rule("CREATE", "", "v1", "configmaps"),
			func(w *admissionregistrationv1.ValidatingWebhook) { w.SideEffects = &effects })
		_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), configMapWebhook("dry"),
			metav1.CreateOptions{DryRun: []string{"All"}})
		if seen := h.reviews(); err != nil || len(seen) != 1 || !*seen[0].DryRun {
			t.Errorf("%s: %v, %v", effects, err, seen)
		}
		err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "w",
			metav1.DeleteOptions{})
		require.NoError(t, err)
	}
}

// All webhooks are called, concurrently, and the client receives their warnings.
func TestValidatingWebhooksRunAtTheSameTime(t *testing.T) {
	c := startWebhook(t)
	const n = 4
	var arrived sync.WaitGroup
	arrived.Add(n)
	h := newHook(t, func(r *review) *admissionv1.AdmissionResponse {
		arrived.Done()
		arrived.Wait() // wait until all others have been called
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"mind the gap"}}
	})
	for i := range n {
		c.validating(t, "w"+strconv.Itoa(i), h, rule("CREATE", "", "v1", "configmaps"))
	}
	cfg := c.plane.RESTConfig()
	var warnings warningRecorder
	cfg.WarningHandlerWithContext = &warnings
	own := clientsOf(t, c.plane, cfg)
	_, err := own.create(t, configMapWebhook("cm"))
	require.NoError(t, err)
	if len(warnings.texts) != 1 || warnings.texts[0] != "mind the gap" {
		t.Errorf("warnings %q", warnings.texts)
	}
	assert.Equalf(t, len(h.reviews()), n, "reviews")
}

type warningRecorder struct{ texts []string }

func (w *warningRecorder) HandleWarningHeaderWithContext(_ context.Context, code int, agent, text string) {
	w.texts = append(w.texts, text)
}

// Webhook and policy configurations, and access reviews, are never sent to webhooks.
func TestWebhooksCantLockOut(t *testing.T) {
	c, h := startWebhook(t), newHook(t, deny)
	made := c.validating(t, "all", h, everything)
	if _, err := c.create(t, configMapWebhook("cm")); err == nil {
		t.Fatal("the webhook does not deny")
	}
	h.reviews()
	made.Labels = map[string]string{"a": "b"}
	_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), made,
		metav1.UpdateOptions{})
	assert.NoErrorf(t, err, "update the configuration")
	err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "all",
		metav1.DeleteOptions{})
	assert.NoErrorf(t, err, "delete the configuration")
	for _, r := range h.reviews() { // they may include writes of controllers
		if r.Resource.Group == admissionregistrationv1.GroupName {
			t.Errorf("review %v", r)
		}
	}
}

// A service without endpoints, and one with an external name. The API does not allow loopback
// addresses in endpoints: see TestResolve.
func TestWebhookByService(t *testing.T) {
	c := startWebhook(t)
	ctx := t.Context()
	h := newHook(t, deny)
	_, portText, err := net.SplitHostPort(h.Listener.Addr().String())
	require.NoError(t, err)
	n, _ := strconv.Atoi(portText)
	port := int32(n)
	c.validating(t, "w", h, rule("CREATE", "", "v1", "configmaps"), func(w *admissionregistrationv1.ValidatingWebhook) {
		w.ClientConfig.URL = nil
		w.ClientConfig.Service = &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hook",
			Path: ptr("/w")}
	})
	expect := func(want string) {
		t.Helper()
		_, err := c.create(t, configMapWebhook("cm"))
		assert.ErrorContainsf(t, err, want, "create")
	}
	expect(`failed to call webhook: Post "https://hook.default.svc:443/w?timeout=10s": services "hook" not found`)

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromInt32(port)}},
	}}
	service, err = c.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	require.NoError(t, err)
	expect(`no endpoints available for service "hook"`)

	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	_, err = c.CoreV1().Services("default").Update(ctx, service, metav1.UpdateOptions{})
	require.NoError(t, err)
	configuration, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "w",
		metav1.GetOptions{})
	require.NoError(t, err)
	configuration.Webhooks[0].ClientConfig.Service.Port = &port
	_, err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(ctx, configuration,
		metav1.UpdateOptions{})
	require.NoError(t, err)
	expect(`admission webhook "w.kelson.dev" denied the request: not today`)
}

// Connections are reused, and closed with the control plane.
func TestConnectionsAreClosed(t *testing.T) {
	c, h := startWebhook(t), newHook(t, allow)
	c.validating(t, "w", h, rule("CREATE", "", "v1", "configmaps"))
	for i := range 5 {
		_, err := c.create(t, configMapWebhook("cm"+strconv.Itoa(i)))
		require.NoError(t, err)
	}
	assert.Equalf(t, h.connections(), 1, "connections for five requests")
	c.plane.Stop()
	h.waitForNoConnection(t)
}
