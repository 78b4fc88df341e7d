package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"
)

// Validating plugins see a TokenRequest with the defaults of the account and the server, so that a
// request without audiences does not evade a policy about them.
func TestPolicySeesCompletedTokenRequest(t *testing.T) {
	inBubble(t, func(p plane) {
		const group = "/apis/admissionregistration.k8s.io/v1"
		p.want(201, "POST", group+"/validatingadmissionpolicies", object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "tokens", `,"spec":{
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["serviceaccounts/token"]}]},
			"validations":[
				{"expression":"object.spec.audiences.all(a, a == 'vault')","message":"only tokens for vault"},
				{"expression":"object.metadata.name == 'robot' && object.metadata.uid != ''","message":"incomplete"}]}`))
		p.want(201, "POST", group+"/validatingadmissionpolicybindings",
			object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "tokens",
				`,"spec":{"policyName":"tokens","validationActions":["Deny"]}`))
		p.want(201, "POST", ns+"/serviceaccounts", object("v1", "ServiceAccount", "robot", ""))
		const path = ns + "/serviceaccounts/robot/token"
		request := func(spec string) string {
			return `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{` + spec + `}}`
		}
		const denied = "denied request: only tokens for vault"
		if got := p.want(422, "POST", path, request(""))["message"]; !contains(got, denied) {
			p.Errorf("%v, want %q", got, denied)
		}
		p.want(201, "POST", path, request(`"audiences":["vault"]`))
		// The account and the request are checked first.
		p.want(404, "POST", ns+"/serviceaccounts/none/token", request(""))
		if got := p.want(422, "POST", path, request(`"expirationSeconds":1`))["message"]; !contains(got,
			"may not specify a duration less than 10 minutes") {
			p.Errorf("%v", got)
		}
	})
}

func contains(message any, text string) bool { return strings.Contains(fmt.Sprint(message), text) }
