package builtin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/attacktest/bodies"
)

// Every write of a CEL expression whose types would be too large is refused before the expression
// is compiled. Each of these takes tens of seconds without the check.
func TestExpensiveExpressions(t *testing.T) {
	s := serve(t, Config{})
	quoted, _ := json.Marshal(bodies.LargeType(16))
	const constraints = `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]}`
	const webhook = `{"metadata":{"name":"w"},"webhooks":[{"name":"a.b.c","admissionReviewVersions":["v1"],"sideEffects":"None","clientConfig":{"url":"https://a.example"},"matchConditions":[{"name":"a","expression":EXPRESSION}]}]}`
	variables := `{"name":"v0","expression":"1"}`
	for i := range 16 {
		variables += fmt.Sprintf(`,{"name":"v%d","expression":"{variables.v%d: variables.v%[2]d}"}`, i+1, i)
	}
	for _, test := range []struct{ target, body, path string }{
		{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
			`{"metadata":{"name":"c"},"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"x","selectors":[{"cel":{"expression":EXPRESSION}}]}}]}}}`,
			"spec.devices.requests[0].exactly.selectors[0].cel.expression"},
		{"/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
			`{"metadata":{"name":"c"},"spec":{"spec":{"devices":{"requests":[{"name":"a","firstAvailable":[{"name":"s","deviceClassName":"x","selectors":[{"cel":{"expression":EXPRESSION}}]}]}]}}}}`,
			"spec.spec.devices.requests[0].firstAvailable[0].selectors[0].cel.expression"},
		{"/apis/resource.k8s.io/v1/deviceclasses",
			`{"metadata":{"name":"c"},"spec":{"selectors":[{"cel":{"expression":EXPRESSION}}]}}`,
			"spec.selectors[0].cel.expression"},
		{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", webhook,
			"webhooks[0].matchConditions[0].expression"},
		{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", webhook,
			"webhooks[0].matchConditions[0].expression"},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
			`{"metadata":{"name":"p"},"spec":{` + constraints + `,"validations":[{"expression":EXPRESSION}]}}`,
			"spec.validations[0].expression"},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
			`{"metadata":{"name":"p"},"spec":{` + constraints +
				`,"validations":[{"expression":"true","messageExpression":EXPRESSION}]}}`,
			"spec.validations[0].messageExpression"},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
			`{"metadata":{"name":"p"},"spec":{` + constraints +
				`,"auditAnnotations":[{"key":"a","valueExpression":EXPRESSION}]}}`,
			"spec.auditAnnotations[0].valueExpression"},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
			`{"metadata":{"name":"p"},"spec":{` + constraints + `,"variables":[` + variables +
				`],"validations":[{"expression":"true"}]}}`, "spec.variables[9].expression"},
		{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
			`{"metadata":{"name":"p"},"spec":{` + constraints +
				`,"reinvocationPolicy":"Never","failurePolicy":"Fail","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":EXPRESSION}}]}}`, "spec.mutations[0].jsonPatch.expression"},
		{"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
			`{"metadata":{"name":"p"},"spec":{` + constraints +
				`,"reinvocationPolicy":"Never","failurePolicy":"Fail","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":EXPRESSION}}]}}`, "spec.mutations[0].applyConfiguration.expression"},
	} {
		message := s.refused(422, metav1.StatusReasonInvalid, "POST", test.target,
			strings.ReplaceAll(test.body, "EXPRESSION", string(quoted)))
		if !strings.Contains(message, test.path+": Invalid value") ||
			!strings.Contains(message, "expression is too complex") {
			t.Errorf("%s: %s", test.target, message)
		}
	}
	// An update is checked too.
	const classes = "/apis/resource.k8s.io/v1/deviceclasses"
	s.do(201, "POST", classes, `{"metadata":{"name":"c"},"spec":{"selectors":[{"cel":{"expression":"true"}}]}}`)
	s.refused(422, metav1.StatusReasonInvalid, "PATCH", classes+"/c",
		fmt.Sprintf(`{"spec":{"selectors":[{"cel":{"expression":%s}}]}}`, quoted))
}
