package kubernetes_test

import (
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
)

// vap returns a validating policy for writes of some resources, and its binding.
func vap(name, resources, spec, binding string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: ` + name + `}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: [` + resources + `]}]
` + spec + `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: ` + name + `}
spec: {policyName: ` + name + `, ` + binding + `}`
}

const denies = `validationActions: [Deny]`

// A policy applies to the next request after its binding is created, and no longer after the
// binding is deleted.
func TestPolicyAppliesToTheNextRequest(t *testing.T) {
	p := startPolicy(t)
	parts := strings.Split(vap("p", "configmaps", `  validations: [{expression: "object.data.size == 'small'"}]`,
		denies), "\n---\n")
	for i := range 10 {
		name := "cm" + strconv.Itoa(i)
		p.must(t, parts[0])
		// a policy without a binding has no effect
		p.must(t, configMapPolicy(name+"a", "{size: big}"))
		p.must(t, parts[1])
		p.refuses(t, configMapPolicy(name, "{size: big}"),
			`configmaps "`+name+`" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.data.size == 'small'`)
		p.must(t, configMapPolicy(name+"b", "{size: small}"))
		p.remove(t, parts[1])
		p.must(t, configMapPolicy(name, "{size: big}"))
		p.remove(t, parts[0])
	}
}

// Functions and variables of expressions.
func TestValidatingExpressions(t *testing.T) {
	for _, test := range []struct{ name, resources, spec, binding, object, want string }{
		{"message", "configmaps", `  validations: [{expression: "false", message: "too late"}]`, denies,
			configMapPolicy("cm", "{}"), "denied request: too late"},
		{"message expression", "configmaps", `  validations: [{expression: "false", messageExpression: "'no ' + object.metadata.name"}]`, denies, configMapPolicy("cm", "{}"), "denied request: no cm"},
		{"variables", "configmaps", `  variables: [{name: count, expression: "int(object.data.count)"}, {name: twice, expression: "variables.count * 2"}]
  validations: [{expression: "variables.twice < 10"}]`, denies, configMapPolicy("cm", "{count: '5'}"), "failed expression: variables.twice < 10"},
		{"request", "configmaps", `  validations: [{expression: "request.operation != 'CREATE' || request.userInfo.username != 'kelson-admin'"}]`, denies, configMapPolicy("cm", "{}"), "failed expression"},
		{"namespace", "configmaps", `  validations: [{expression: "namespaceObject.metadata.name != 'default'"}]`,
			denies, configMapPolicy("cm", "{}"), "failed expression"},
		{"authorizer", "configmaps", `  validations: [{expression: "!authorizer.group('').resource('secrets').check('get').allowed()"}]`, denies, configMapPolicy("cm", "{}"), "failed expression"},
		{"error", "configmaps", `  validations: [{expression: "object.data.missing == 'x'"}]`, denies,
			configMapPolicy("cm", "{a: b}"), "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"},
		{"error that is ignored", "configmaps", `  failurePolicy: Ignore
  validations: [{expression: "object.data.missing == 'x'"}]`, denies, configMapPolicy("cm", "{}"), ""},
		{"condition that does not hold", "configmaps", `  matchConditions: [{name: c, expression: "object.metadata.name != 'cm'"}]
  validations: [{expression: "false"}]`, denies, configMapPolicy("cm", "{}"), ""},
		{"another resource", "secrets", `  validations: [{expression: "false"}]`, denies, configMapPolicy("cm", "{}"), ""},
		{"binding for other namespaces", "configmaps", `  validations: [{expression: "false"}]`,
			denies + `, matchResources: {namespaceSelector: {matchLabels: {a: b}}}`, configMapPolicy("cm", "{}"), ""},
		{"binding for the namespace", "configmaps", `  validations: [{expression: "false"}]`,
			denies + `, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}`,
			configMapPolicy("cm", "{}"), "failed expression: false"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startPolicy(t, vap("p", test.resources, test.spec, test.binding))
			if test.want == "" {
				p.must(t, test.object)
			} else {
				p.refuses(t, test.object, test.want)
			}
		})
	}
}

// An expression over the cost budget is an error.
func TestCostIsLimited(t *testing.T) {
	p := startPolicy(t, vap("p", "configmaps", `  validations: [{expression: "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a+b+c+d != ''))))"}]`, denies))
	var data strings.Builder
	for i := range 60 {
		data.WriteString(", k" + strconv.Itoa(i) + ": v")
	}
	p.refuses(t, configMapPolicy("cm", "{"+data.String()[1:]+"}"),
		"resulted in error: operation cancelled: actual cost limit exceeded")
}

// Deny, warn and audit; the reason determines the status code.
func TestValidationActions(t *testing.T) {
	p := startPolicy(t, vap("p", "configmaps", `  validations: [{expression: "false", message: careful}]`,
		`validationActions: [Warn, Audit]`))
	p.must(t, configMapPolicy("cm", "{}"))
	if want := "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': careful"; len(p.warnings) != 1 ||
		p.warnings[0] != want {
		t.Errorf("warnings %q, want %s", p.warnings, want)
	}
	p = startPolicy(t, vap("p", "configmaps", `  validations: [{expression: "false", reason: RequestEntityTooLarge}]`,
		denies))
	_, err := p.create(t, configMapPolicy("cm", "{}"))
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != 413 ||
		status.Status().Reason != metav1.StatusReasonRequestEntityTooLarge {
		t.Errorf("create = %v, want 413", err)
	}
}

// Parameters of built-in and custom kinds, by name and by selector, and missing parameters.
func TestParameters(t *testing.T) {
	const withAccount = `  paramKind: {apiVersion: v1, kind: ServiceAccount}
  validations: [{expression: "int(object.data.count) <= int(params.metadata.annotations.max)", messageExpression: "'more than ' + params.metadata.annotations.max + ' of ' + params.kind"}]`
	const withWidget = `  paramKind: {apiVersion: shop.example/v2, kind: Widget}
  validations: [{expression: "int(object.data.count) <= params.spec.size", messageExpression: "'more than ' + string(params.spec.size) + ' of ' + params.apiVersion"}]`
	limit := func(name, max string) string {
		return `{apiVersion: v1, kind: ServiceAccount, metadata: {name: ` + name +
			`, labels: {limit: "yes"}, annotations: {max: "` + max + `"}}}`
	}
	const byName = denies + `, paramRef: {name: limit, parameterNotFoundAction: `
	const bySelector = denies + `, paramRef: {selector: {matchLabels: {limit: "yes"}}, parameterNotFoundAction: `
	n := func(n string) string { return configMapPolicy("cm", `{count: "`+n+`"}`) }
	widget := `{apiVersion: shop.example/v1, kind: Widget, metadata: {name: limit}, spec: {size: 3}}`

	t.Run("by name", func(t *testing.T) {
		p := startPolicy(t, vap("p", "configmaps", withAccount, byName+"Deny}"))
		p.refuses(t, n("1"), "no params found for policy binding with `Deny` parameterNotFoundAction")
		p.must(t, limit("limit", "3"))
		p.refuses(t, n("4"), "denied request: more than 3 of ServiceAccount")
		p.must(t, n("3"))
		p.remove(t, limit("limit", "3"))
		p.must(t, limit("limit", "0"))
		p.refuses(t, configMapPolicy("other", `{count: "1"}`), "more than 0 of ServiceAccount")
	})
	t.Run("by name, none", func(t *testing.T) {
		startPolicy(t, vap("p", "configmaps", withAccount, byName+"Allow}")).must(t, n("9"))
	})
	t.Run("by selector", func(t *testing.T) {
		p := startPolicy(t, limit("limit-a", "5"), limit("limit-b", "2"),
			vap("p", "configmaps", withAccount, bySelector+"Deny}"))
		p.refuses(t, n("4"), "more than 2 of ServiceAccount") // all parameters must allow it
		p.must(t, n("2"))
	})
	t.Run("custom", func(t *testing.T) {
		p := startPolicy(t, widgetsPolicy, vap("p", "configmaps", withWidget, byName+"Deny}"))
		p.refuses(t, n("1"), "no params found")
		p.must(t, widget)
		p.refuses(t, n("4"), "more than 3 of shop.example/v2")
		p.must(t, n("3"))
	})
	t.Run("kind that comes later", func(t *testing.T) {
		p := startPolicy(t, vap("p", "configmaps", withWidget, byName+"Deny}"))
		p.refuses(t, n("1"), "failed to configure policy: failed to find resource referenced by paramKind: 'shop.example/v2, Kind=Widget'")
		p.must(t, widgetsPolicy)
		p.must(t, widget)
		p.must(t, n("3"))
	})
}

// Deletion, with the old object; custom resources in the version of the rule; the kinds of
// subresources.
func TestValidatingPolicyOnOtherRequests(t *testing.T) {
	t.Run("deletion", func(t *testing.T) {
		p := startPolicy(t, vap("p", "configmaps", `  validations: [{expression: "request.operation != 'DELETE' || oldObject.data.keep != 'yes'"}]`, denies))
		u := p.must(t, configMapPolicy("cm", `{keep: "yes"}`))
		err := p.objects(t, u).Delete(t.Context(), "cm", metav1.DeleteOptions{})
		assert.ErrorContainsf(t, err, "denied request", "delete")
		err = p.objects(t, u).DeleteCollection(t.Context(), metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "metadata.name=cm"})
		assert.ErrorContainsf(t, err, "denied request", "delete collection")
	})
	t.Run("custom", func(t *testing.T) {
		p := startPolicy(t, widgetsPolicy, vap("p", "widgets", `  validations: [{expression: "object.spec.size < 5"}]`, denies))
		p.refuses(t, `{apiVersion: shop.example/v2, kind: Widget, metadata: {name: w}, spec: {size: 7}}`,
			"failed expression: object.spec.size < 5")
		p.must(t, `{apiVersion: shop.example/v2, kind: Widget, metadata: {name: w}, spec: {size: 3}}`)
	})
	t.Run("scale", func(t *testing.T) {
		p := startPolicy(t, widgetsPolicy, vap("p", "widgets/scale",
			`  validations: [{expression: "object.spec.replicas < 5 && oldObject.spec.replicas == 1"}]`, denies))
		u := p.must(t, `{apiVersion: shop.example/v1, kind: Widget, metadata: {name: w}, spec: {replicas: 1}}`)
		patch := func(n string) error {
			_, err := p.objects(t, u).Patch(t.Context(), "w", types.MergePatchType,
				[]byte(`{"spec":{"replicas":`+n+`}}`), metav1.PatchOptions{}, "scale")
			return err
		}
		assert.ErrorContainsf(t, patch("7"), "denied request", "scale to 7")
		assert.NoErrorf(t, patch("4"), "scale to 4")
	})
}

// Policies can't prevent their own repair.
func TestPoliciesCantLockOut(t *testing.T) {
	policy := vap("p", `"*"`, `  validations: [{expression: "false"}]`, denies)
	p := startPolicy(t, policy)
	p.refuses(t, configMapPolicy("cm", "{}"), "failed expression: false")
	for part := range strings.SplitSeq(policy, "\n---\n") {
		p.remove(t, part)
	}
	p.must(t, configMapPolicy("cm", "{}"))
}
