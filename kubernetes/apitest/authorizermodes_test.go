package apitest_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/authz"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/authorizers"
)

func asks(name, verb string, groups ...string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: name, Groups: groups}, Verb: verb, ResourceRequest: true, Namespace: "x",
		APIVersion: "v1", Resource: "pods", Name: "p",
	}
}

func want(t *testing.T, a authorizer.UnconditionalAuthorizer, q authorizer.AttributesRecord,
	decision authorizer.Decision) {
	t.Helper()
	if got, reason, err := a.Authorize(t.Context(), q); got != decision {
		t.Errorf("%s %s: %v (%q, %v), want %v", q.User.GetName(), q.Verb, got, reason, err, decision)
	}
}

const (
	allow = authorizer.DecisionAllow
	deny  = authorizer.DecisionDeny
	pass  = authorizer.DecisionNoOpinion
)

// The configured modes decide in their order, and system:masters is allowed before all of them. A
// mode without an implementation and an invalid policy file are errors.
func TestModeOrder(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.jsonl")
	write(t, policy, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"x","resource":"pods","apiGroup":"*"}}`)
	modes := authz.Modes{authz.ModeABAC: func() (authz.Authorizer, error) { return authorizers.ABAC(policy) }}
	for _, test := range []struct {
		modes          []string
		root, ann, bob authorizer.Decision
	}{
		{[]string{"AlwaysAllow"}, allow, allow, allow},
		{[]string{"AlwaysDeny"}, allow, pass, pass},
		{[]string{"ABAC"}, allow, allow, pass},
		{[]string{"AlwaysDeny", "ABAC"}, allow, allow, pass},
		{[]string{"ABAC", "AlwaysAllow"}, allow, allow, allow},
	} {
		options := authz.Options{Modes: test.modes, PolicyFile: policy}
		if names := fmt.Sprint(test.modes); !strings.Contains(names, "ABAC") {
			options.PolicyFile = ""
		}
		if errs := options.Validate(); len(errs) > 0 {
			t.Errorf("%v: %v", test.modes, errs)
		}
		a, err := authz.New(options.Configuration(), modes)
		require.NoError(t, err)
		want(t, a, asks("root", "get", user.SystemPrivilegedGroup), test.root)
		want(t, a, asks("ann", "get"), test.ann)
		want(t, a, asks("bob", "get"), test.bob)
	}
	a, err := authz.New(authz.Options{Modes: []string{"ABAC"}}.Configuration(), modes)
	require.NoError(t, err)
	if rules, _, incomplete, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "ann"}, "x"); len(rules) != 1 ||
		incomplete || err != nil {
		t.Errorf("%v %v %v", rules, incomplete, err)
	}
	if _, err := authz.New(authz.Options{Modes: []string{"RBAC"}}.Configuration(), modes); err == nil {
		t.Error("want an error for an unknown mode")
	}
	write(t, policy, "\nnot JSON")
	_, err = authz.New(authz.Options{Modes: []string{"ABAC"}}.Configuration(), modes)
	assert.ErrorContains(t, err, "error reading policy file "+policy+", line 2: not JSON")
}

// Each invalid combination of options gets its message.
func TestInvalidOptions(t *testing.T) {
	for text, o := range map[string]authz.Options{
		"at least one authorization-mode must be passed":                    {},
		`authorization-mode "Unknown" is not a valid mode`:                  {Modes: []string{"Unknown"}},
		"authorization-mode ABAC's authorization policy file not passed":    {Modes: []string{"ABAC"}},
		"authorization-mode Webhook's authorization config file not passed": {Modes: []string{"Webhook"}},
		"cannot specify --authorization-policy-file without mode ABAC": {Modes: []string{"RBAC"},
			PolicyFile: "x"},
		"cannot specify --authorization-webhook-config-file without mode Webhook": {Modes: []string{"RBAC"},
			Webhook: authz.Webhook{ConfigFile: "x"}},
		`authorization-mode ["RBAC" "Node" "RBAC"] has mode specified more than once`: {
			Modes: []string{"RBAC", "Node", "RBAC"}},
		authz.ErrFileAlone.Error(): {Modes: []string{"RBAC"},
			File: "x"},
	} {
		if err := errors.Join(o.Validate()...); err == nil || err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}

// reviewer is an authorization webhook on its own TLS port. It allows ann, denies eve, and has no
// opinion on others.
type reviewer struct {
	*httptest.Server
	asked   atomic.Int64
	version atomic.Value
	config  string // kubeconfig
}

func newReviewer(t *testing.T) *reviewer {
	r := &reviewer{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.asked.Add(1)
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.version.Store(review.APIVersion)
		review.Status = authorizationv1.SubjectAccessReviewStatus{
			Allowed: review.Spec.User == "ann", Denied: review.Spec.User == "eve",
			Reason: "decided by the test's webhook",
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(&review)
	}))
	t.Cleanup(r.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ca.crt"), string(ca))
	r.config = filepath.Join(dir, "webhook.kubeconfig")
	write(t, r.config, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c",
		"clusters":[{"name":"s","cluster":{"server":%q,"certificate-authority":"ca.crt"}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"s","user":"u"}}]}`, r.URL))
	return r
}

// The webhook decides, in the configured API version, except about system:masters. Only positive
// answers are cached with this configuration.
func TestWebhook(t *testing.T) {
	for _, version := range []string{"", "v1"} {
		server := newReviewer(t)
		a, err := authz.New(authz.Options{Modes: []string{"Webhook"}, Webhook: authz.Webhook{
			ConfigFile: server.config, Version: version, AuthorizedTTL: time.Hour,
		}}.Configuration(), nil)
		require.NoError(t, err)
		want(t, a, asks("root", "get", user.SystemPrivilegedGroup), allow)
		assert.Equalf(t, server.asked.Load(), 0, "requests about system:masters")
		want(t, a, asks("ann", "get"), allow)
		want(t, a, asks("ann", "get"), allow) // cached
		want(t, a, asks("eve", "get"), deny)
		want(t, a, asks("eve", "get"), deny) // not cached
		want(t, a, asks("bob", "get"), pass)
		assert.Equalf(t, server.asked.Load(), 4, "requests")
		if got, want := server.version.Load(), "authorization.k8s.io/"+
			map[string]string{"": "v1beta1", "v1": "v1"}[version]; got != want {
			t.Errorf("requested in %v, want %v", got, want)
		}
	}
	if _, err := authz.New(authz.Options{Modes: []string{"Webhook"},
		Webhook: authz.Webhook{ConfigFile: "nowhere"}}.Configuration(), nil); err == nil {
		t.Error("want an error for a missing kubeconfig")
	}
}

// configuration returns a file with two webhooks: the first decides all writes; the second decides
// the rest.
func configuration(first, second, failurePolicy, more string) string {
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: first.example.com
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: %s
    authorizedTTL: 5m
    cacheAuthorizedRequests: false
    cacheUnauthorizedRequests: false
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions:
    - expression: has(request.resourceAttributes) && request.resourceAttributes.verb != 'get'
- type: Webhook
  name: second.example.com
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
%s`, failurePolicy, first, second, more)
}

// Match conditions select the webhooks that a request reaches. A changed file applies to the next
// request, and an invalid one is logged once and has no effect.
func TestConfigurationFile(t *testing.T) {
	first, second := newReviewer(t), newReviewer(t)
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	var warned []error
	write(t, file, configuration(first.config, second.config, "Deny", "- {type: AlwaysDeny, name: alwaysdeny}\n"))
	modes := authz.Modes{}
	a, err := authz.Open(file, authorizers.Parse, modes, func(err error) { warned = append(warned, err) })
	require.NoError(t, err)
	counts := func(wantFirst, wantSecond int64) {
		t.Helper()
		if f, s := first.asked.Swap(0), second.asked.Swap(0); f != wantFirst || s != wantSecond {
			t.Errorf("the first got %d requests, the second %d, want %d and %d", f, s, wantFirst, wantSecond)
		}
	}
	want(t, a, asks("ann", "update"), allow)
	counts(1, 0)
	want(t, a, asks("ann", "get"), allow)
	counts(0, 1)
	want(t, a, asks("bob", "update"), pass)
	counts(1, 1)
	want(t, a, asks("eve", "update"), deny)
	counts(1, 0)

	// An invalid file has no effect and is logged once.
	for text, content := range map[string]string{
		"missing required types: [AlwaysDeny]": configuration(first.config, second.config, "Deny", ""),
		"is not allowed if it was not enabled": configuration(first.config, second.config, "Deny",
			"- {type: AlwaysDeny, name: alwaysdeny}\n- {type: RBAC, name: rbac}\n"),
		"failed to load": "not YAML: [",
		"unknown field": strings.Replace(configuration(first.config, second.config, "Deny",
			"- {type: AlwaysDeny, name: alwaysdeny}\n"), "timeout", "timout", 1),
		"matchConditions[0].expression": strings.Replace(configuration(first.config, second.config, "Deny",
			"- {type: AlwaysDeny, name: alwaysdeny}\n"), "!=", "!!", 1),
		"expected name alwaysdeny": configuration(first.config, second.config, "Deny",
			"- {type: AlwaysDeny, name: never}\n"),
		"failurePolicy": configuration(first.config, second.config, "Maybe",
			"- {type: AlwaysDeny, name: alwaysdeny}\n"),
	} {
		warned = nil
		write(t, file, content)
		want(t, a, asks("ann", "update"), allow)
		want(t, a, asks("ann", "update"), allow)
		if len(warned) != 1 || !strings.Contains(warned[0].Error(), text) {
			t.Errorf("warned of %v, want one of %s", warned, text)
		}
		if _, err := authz.Open(file, authorizers.Parse, authz.Modes{}, nil); err == nil &&
			!strings.Contains(text, "missing") {
			t.Errorf("opened with %s", text)
		}
	}
	first.asked.Store(0)

	// A valid file applies to the next request.
	warned = nil
	write(t, file, configuration(second.config, first.config, "Deny", "- {type: AlwaysDeny, name: alwaysdeny}\n"))
	want(t, a, asks("ann", "update"), allow)
	counts(0, 1)
	// If a webhook does not respond, its failure policy decides.
	second.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no time for retries
	if decision, _, err := a.Authorize(ctx, asks("ann", "update")); decision != deny || err == nil {
		t.Error(decision, err)
	}
	if len(warned) > 0 {
		t.Error(warned)
	}
}
