package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/delegated"

	"kelson.dev/examples/pizza-apiserver/restaurant"
)

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// behind returns a server behind a cluster, and a function that sends it requests as a user.
func behind(t *testing.T, cluster *rest.Config, log io.Writer) func(u user.Info,
	method, path, body string) (*http.Response, string) {
	t.Helper()
	d, err := delegated.New(t.Context(), delegated.Config{Cluster: cluster,
		Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.New(t.Context(), restaurant.API(),
		apiserver.Authorization(func(context.Context) (apiserver.Auth, error) { return apiserver.Delegated(d), nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return func(u user.Info, method, path, body string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method,
			"http://server/apis/restaurant.programming-kubernetes.info/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := server.RESTConfigAs(u).Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(answer)
	}
}

// eventually repeats a check until the server has received the change from the cluster by its
// watches.
func eventually(t *testing.T, what string, check func() (bool, string)) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		done, seen := check()
		if done {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: %s", what, seen)
		}
	}
}

var masters = &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}

func topping(name string) string {
	return `{"apiVersion":"restaurant.programming-kubernetes.info/v1alpha1","kind":"Topping","metadata":{"name":"` +
		name + `"},"spec":{"cost":10}}`
}

// The cluster's webhooks, policies and FlowSchemas apply to the kinds of the server, as with
// Kubernetes' own library, and follow their objects.
func TestConfigurationOfTheCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a second")
	}
	c := newCluster(t)
	var log buffer
	send := behind(t, c.env.RESTConfig(), &log)
	if resp, answer := send(masters, "POST", "v1alpha1/toppings",
		topping("pineapple")); resp.StatusCode != http.StatusCreated {
		t.Fatalf("before: %s %s", resp.Status, answer)
	}

	// A webhook that labels toppings, and a policy that rejects them.
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		patch := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: &patch,
			Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"labeled-by":"hook"}}]`)}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer hook.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	toppings := admissionregistrationv1.Rule{APIGroups: []string{"restaurant.programming-kubernetes.info"},
		APIVersions: []string{"*"}, Resources: []string{"toppings"}}
	creates := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create}, Rule: toppings}
	none := admissionregistrationv1.SideEffectClassNone
	ctx := t.Context()
	if _, err := c.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx,
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "labels"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "labels.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &hook.URL,
					CABundle: ca},
				Rules: []admissionregistrationv1.RuleWithOperations{creates}, SideEffects: &none,
				AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "no-anchovies"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: creates}}},
				Validations: []admissionregistrationv1.Validation{
					{Expression: "object.metadata.name != 'anchovies'", Message: "no anchovies here"}},
			},
		}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "no-anchovies"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "no-anchovies", ValidationActions: []admissionregistrationv1.ValidationAction{
					admissionregistrationv1.Deny},
			},
		}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy rejects", func() (bool, string) {
		resp, answer := send(masters, "POST", "v1alpha1/toppings?dryRun=All", topping("anchovies"))
		return resp.StatusCode == http.StatusUnprocessableEntity && strings.Contains(answer, "no anchovies here"),
			answer
	})
	eventually(t, "the webhook labels", func() (bool, string) {
		resp, answer := send(masters, "POST", "v1alpha1/toppings?dryRun=All", topping("ham"))
		return resp.StatusCode == http.StatusCreated && strings.Contains(answer, `"labeled-by":"hook"`), answer
	})

	// A FlowSchema for the group, and the deletion of the policy.
	schema, err := c.kube.FlowcontrolV1().FlowSchemas().Create(ctx,
		&flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: "pizza"}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-low"},
			MatchingPrecedence:         500,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser,
					User: &flowcontrolv1.UserSubject{Name: "alice"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"*"}, APIGroups: []string{"restaurant.programming-kubernetes.info"},
					Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"},
				}},
			}},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the FlowSchema applies", func() (bool, string) {
		resp, _ := send(&user.DefaultInfo{Name: "alice"}, "GET", "v1alpha1/toppings", "")
		got := resp.Header.Get("X-Kubernetes-PF-FlowSchema-UID")
		return got == string(schema.UID), got
	})
	if err := c.kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "no-anchovies",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy is deleted", func() (bool, string) {
		resp, answer := send(masters, "POST", "v1alpha1/toppings?dryRun=All", topping("anchovies"))
		return resp.StatusCode == http.StatusCreated, answer
	})
	if strings.Contains(log.text(), "not applied") {
		t.Errorf("log: %s", log.text())
	}
}

// A server whose account may not read the configuration logs a warning, and serves without the
// configuration.
func TestConfigurationOfTheClusterIsForbidden(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a second")
	}
	c := newCluster(t)
	weak := []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "weak"}}
	if _, err := c.kube.RbacV1().ClusterRoleBindings().Create(t.Context(),
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "weak"},
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole",
				Name: "system:auth-delegator"}, Subjects: weak}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.kube.RbacV1().RoleBindings("kube-system").Create(t.Context(),
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "weak"},
			RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role",
				Name: "extension-apiserver-authentication-reader"}, Subjects: weak},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(c.env.RESTConfig())
	config.Impersonate.UserName = "weak"
	var log buffer
	send := behind(t, config, &log)
	if resp, answer := send(masters, "POST", "v1alpha1/toppings",
		topping("ham")); resp.StatusCode != http.StatusCreated {
		t.Errorf("%s %s", resp.Status, answer)
	}
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingadmissionpolicies", "flowschemas"} {
		if want := "the cluster's " + kind + " are not applied; allow the server's account to list and watch them"; !strings.Contains(log.text(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.text())
		}
	}
	if strings.Contains(log.text(), "the cluster's services") {
		t.Errorf("log: %s", log.text())
	}
}

// A cluster's policy reads its parameters from the cluster, and parameters of kinds that this
// server serves from the server itself.
func TestParametersOfPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a second")
	}
	c := newCluster(t)
	var log buffer
	send := behind(t, c.env.RESTConfig(), &log)
	ctx, policies := t.Context(), c.kube.AdmissionregistrationV1()
	limit := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "limit"},
		Data: map[string]string{"max": "5"}}
	if _, err := c.kube.CoreV1().ConfigMaps("default").Create(ctx, limit, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deny := admissionregistrationv1.DenyAction
	apply := func(name, expression string, kind admissionregistrationv1.ParamKind,
		ref admissionregistrationv1.ParamRef) {
		t.Helper()
		ref.ParameterNotFoundAction = &deny
		if _, err := policies.ValidatingAdmissionPolicies().Create(ctx,
			&admissionregistrationv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
					ParamKind: &kind,
					MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
							Rule: admissionregistrationv1.Rule{
								APIGroups:   []string{"restaurant.programming-kubernetes.info"},
								APIVersions: []string{"*"},
								Resources:   []string{"toppings"},
							},
						},
					}}},
					Validations: []admissionregistrationv1.Validation{
						{Expression: expression, Message: "too expensive for " + name}},
				},
			}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := policies.ValidatingAdmissionPolicyBindings().Create(ctx,
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
					PolicyName: name, ParamRef: &ref,
					ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
				},
			}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(status int, text string) {
		t.Helper()
		eventually(t, text, func() (bool, string) {
			resp, answer := send(masters, "POST", "v1alpha1/toppings?dryRun=All", topping("ham"))
			return resp.StatusCode == status && strings.Contains(answer, text), answer
		})
	}
	remove := func(name string) {
		t.Helper()
		if err := policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		answers(http.StatusCreated, "ham")
	}
	byName := func(namespace, name string) admissionregistrationv1.ParamRef {
		return admissionregistrationv1.ParamRef{Namespace: namespace, Name: name}
	}

	apply("budget", "object.spec.cost <= int(params.data.max)",
		admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}, byName("default", "limit"))
	answers(http.StatusUnprocessableEntity, "too expensive for budget")
	limit.Data["max"] = "10"
	if _, err := c.kube.CoreV1().ConfigMaps("default").Update(ctx, limit, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	answers(http.StatusCreated, "ham")
	if err := c.kube.CoreV1().ConfigMaps("default").Delete(ctx, "limit", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	answers(http.StatusUnprocessableEntity, "no params found for policy binding with `Deny` parameterNotFoundAction")
	remove("budget")

	own := admissionregistrationv1.ParamKind{APIVersion: "restaurant.programming-kubernetes.info/v1alpha1",
		Kind: "Topping"}
	apply("reference", "object.spec.cost < params.spec.cost", own, byName("", "cheese"))
	answers(http.StatusUnprocessableEntity, "no params found")
	if resp, answer := send(masters, "POST", "v1alpha1/toppings",
		strings.ReplaceAll(topping("cheese"), `"cost":10`, `"cost":5`)); resp.StatusCode == http.StatusCreated {
		t.Errorf("created while its own parameter is missing: %s", answer)
	}
	remove("reference")
	if resp, answer := send(masters, "POST", "v1alpha1/toppings",
		topping("cheese")); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", resp.Status, answer)
	}
	apply("again", "object.spec.cost < params.spec.cost", own, byName("", "cheese"))
	answers(http.StatusUnprocessableEntity, "too expensive for again")
	remove("again")

	apply("unknown", "true", admissionregistrationv1.ParamKind{APIVersion: "shop.example/v1", Kind: "Limit"},
		byName("", "limit"))
	answers(http.StatusUnprocessableEntity, "failed to find resource referenced by paramKind: 'shop.example/v1, Kind=Limit'")
}

// The client of the cluster does not delay many concurrent users: in virtual time, a client with
// client-go's default limit would take 18 seconds.
func TestReviewsAreNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster(t).env.RESTConfig()
		cluster.QPS = 0 // as in a kubeconfig
		send := behind(t, cluster, io.Discard)
		time.Sleep(time.Second) // the watches of the authorities begin in the background
		begun := time.Now()
		var requests sync.WaitGroup
		for i := range 100 {
			requests.Go(func() {
				u := &user.DefaultInfo{Name: fmt.Sprint("user-", i)}
				if resp, answer := send(u, "GET", "v1alpha1/toppings", ""); resp.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s %s", u.Name, resp.Status, answer)
				}
			})
		}
		requests.Wait()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("100 reviews took %s", took)
		}
	})
}
