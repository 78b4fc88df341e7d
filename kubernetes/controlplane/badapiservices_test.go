package controlplane_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"kelson.dev/kubernetes/controlplane"
)

// Invalid APIServices are rejected with Kubernetes' error messages. Two for one group version are
// impossible, because the name of each follows from its group version. Wrong certificates and wrong
// groups of servers are in TestAvailability.
func TestBadAPIServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
		c.serve("wardle", "wardle.default.svc", &api{group: wardle, version: "v1alpha1"})
		c.register(wardle, "v1alpha1", "wardle")
		for _, test := range []struct {
			name, object, spec string
			code               int
			want               string
		}{
			{"second for a group version", "other",
				`"group":"wardle.example.com","version":"v1alpha1","service":{"namespace":"default","name":"other"},"groupPriorityMinimum":1,"versionPriority":1`,
				http.StatusUnprocessableEntity,
				`APIService.apiregistration.k8s.io \"other\" is invalid: metadata.name: Invalid value: \"other\": must be ` + "`spec.version+\\\".\\\"+spec.group`: \\\"v1alpha1.wardle.example.com\\\""},
			{"the same again", wardleName, `"group":"wardle.example.com","version":"v1alpha1","service":{"namespace":"default","name":"other"},"groupPriorityMinimum":1,"versionPriority":1`,
				http.StatusConflict, `apiservices.apiregistration.k8s.io \"v1alpha1.wardle.example.com\" already exists`},
			{"certificates and none", "v1.b.example.com",
				`"group":"b.example.com","version":"v1","service":{"namespace":"default","name":"b"},"groupPriorityMinimum":1,"versionPriority":1,"insecureSkipTLSVerify":true,"caBundle":"YQ=="`,
				http.StatusUnprocessableEntity,
				`spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present`},
			{"priorities", "v1.b.example.com",
				`"group":"b.example.com","version":"v1","service":{"namespace":"default","name":"b"},"groupPriorityMinimum":0,"versionPriority":1001`,
				http.StatusUnprocessableEntity,
				`spec.versionPriority: Invalid value: 1001: must be positive and less than 1000`},
			{"no service name", "v1.b.example.com",
				`"group":"b.example.com","version":"v1","service":{"namespace":"default"},"groupPriorityMinimum":1,"versionPriority":1`,
				http.StatusUnprocessableEntity, `spec.service.name: Required value`},
			{"local without a kind", "v1.b.example.com",
				`"group":"b.example.com","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"caBundle":"YQ=="`,
				http.StatusUnprocessableEntity,
				`spec.caBundle: Invalid value: \"1 bytes\": local APIServices may not have a caBundle`},
		} {
			body := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"` + test.object +
				`"},"spec":{` + test.spec + `}}`
			if code, answer := ask(t, c.plane, root, "POST", apiServicesPath, body); code != test.code ||
				!strings.Contains(answer, test.want) {
				t.Errorf("%s: %d %s\nwant %d %s", test.name, code, answer, test.code, test.want)
			}
		}
		// The first one still serves.
		c.get(flunders, http.StatusOK)
	})
}
